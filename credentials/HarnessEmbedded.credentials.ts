/* Own settings for a harness inside n8n. None is needed for the usual one. */
import type { ICredentialType, INodeProperties } from 'n8n-workflow'

export class HarnessEmbedded implements ICredentialType {
  name = 'harnessEmbedded'

  displayName = 'Agent Harness Own Settings'

  documentationUrl = 'https://www.npmjs.com/package/n8n-nodes-agent-harness'

  icon = { light: 'file:../nodes/icons/harness.svg', dark: 'file:../nodes/icons/harness.dark.svg' } as const

  properties: INodeProperties[] = [
    { displayName: 'Folder', name: 'folder', type: 'string', required: true, default: '', placeholder: '/home/node/.n8n/second-harness', description: 'Where database, configuration and keys live; made at first use. Not that of the harness that needs no credential.' },
    { displayName: 'Ollama Address', name: 'ollamaUrl', type: 'string', default: '', placeholder: 'http://host.docker.internal:11434', description: 'If left empty, OLLAMA_HOST, else http://127.0.0.1:11434' },
    {
      displayName: 'Secrets', name: 'secrets', type: 'string', typeOptions: { password: true, rows: 4 }, default: '', placeholder: 'SHOP_TOKEN=…',
      description: 'What harness.yaml refers to as ${NAME}: NAME=value, one a line. Stays in n8n.',
    },
  ]
}
