/* The way to a harness that runs with "agent-harness serve". */
import type { IAuthenticateGeneric, ICredentialTestRequest, ICredentialType, INodeProperties } from 'n8n-workflow'

export class HarnessServer implements ICredentialType {
  name = 'harnessServer'

  displayName = 'Agent Harness Server'

  documentationUrl = 'https://www.npmjs.com/package/n8n-nodes-agent-harness'

  icon = { light: 'file:../nodes/icons/harness.svg', dark: 'file:../nodes/icons/harness.dark.svg' } as const

  properties: INodeProperties[] = [
    { displayName: 'Address', name: 'address', type: 'string', default: 'http://127.0.0.1:4477', required: true, description: 'Where "agent-harness serve" listens' },
    { displayName: 'Token', name: 'token', type: 'string', typeOptions: { password: true }, default: '', required: true, description: 'Made on the server with "agent-harness tokens add n8n"' },
    {
      displayName: 'Call Signing Secret', name: 'callSigningSecret', type: 'string', typeOptions: { password: true }, default: '',
      description: 'Only for the Function Trigger: with it the workflow knows that a call comes from this server. Shown there by "agent-harness tokens signing-secret".',
    },
  ]

  authenticate: IAuthenticateGeneric = { type: 'generic', properties: { headers: { Authorization: '=Bearer {{$credentials.token}}' } } }

  test: ICredentialTestRequest = { request: { baseURL: '={{$credentials.address.replace(/\\/+$/, "")}}', url: '/v1/get_user_context', method: 'POST', body: {} } }
}
