/* The parameters of Send, as the editor shows them. */
import type { INodeProperties } from 'n8n-workflow'
import { harnessProperty } from '../shared/connect'

const show = (...operation: string[]): Pick<INodeProperties, 'displayOptions'> => ({ displayOptions: { show: { operation } } })

const operation: INodeProperties = {
  displayName: 'Operation',
  name: 'operation',
  type: 'options',
  noDataExpression: true,
  options: [
    { name: 'Get Status', value: 'status', action: 'Get the status of a turn', description: 'Where a turn is, with its calls and its result' },
    { name: 'Run a Function', value: 'run', action: 'Run a function', description: 'Run one function (tool) under policy, approval and record, without a model' },
    {
      name: 'Send a Turn', value: 'send', action: 'Send a turn',
      description: 'Give an agent a message. It goes on by itself whatever happens to this workflow; Await Turn waits for the end. The same item of one execution is never sent twice.',
    },
    { name: 'Stop', value: 'stop', action: 'Stop a turn', description: 'Stop a turn at any moment' },
  ],
  default: 'send',
}

const options: INodeProperties = {
  displayName: 'Options',
  name: 'options',
  type: 'collection',
  placeholder: 'Add option',
  default: {},
  ...show('send'),
  options: [
    { displayName: 'Allowed Functions', name: 'allow', type: 'string', default: '', placeholder: 'shop::*, mail::draft', description: 'Which functions (tools) this turn may use, of those that the policy allows: one pattern a line, or with commas between' },
    { displayName: 'Denied Functions', name: 'deny', type: 'string', default: '', placeholder: 'shop::refund', description: 'Which functions this turn may not use. Wins over what is allowed.' },
    {
      displayName: 'Idempotency Key', name: 'idempotencyKey', type: 'string', typeOptions: { password: false }, default: '',
      description: 'Under the same key a message is sent once. If left empty, the key is made of execution, node, run and item: retries inside one execution never send twice. An execution that is started anew sends anew; give a key of your own, such as the ID of the mail, where that must not be.',
    },
    { displayName: 'Max Rounds', name: 'maxRounds', type: 'number', typeOptions: { minValue: 1, maxValue: 500 }, default: 16, description: 'How many model calls the turn may make' },
    { displayName: 'Metadata', name: 'metadata', type: 'json', default: '{}', description: 'Kept with the turn, not shown to the model' },
    {
      displayName: 'Mode', name: 'mode', type: 'options', default: 'agent',
      options: [
        { name: 'Agent', value: 'agent', description: 'May act, as the policy allows' },
        { name: 'Ask', value: 'ask', description: 'Answers; changes nothing' },
        { name: 'Plan', value: 'plan', description: 'Plans; changes nothing' },
      ],
    },
    { displayName: 'System Prompt', name: 'systemPrompt', type: 'string', typeOptions: { rows: 4 }, default: '', description: 'What the agent is told before the message' },
  ],
}

export const sendProperties: INodeProperties[] = [
  harnessProperty,
  operation,
  { displayName: 'Message', name: 'message', type: 'string', typeOptions: { rows: 4 }, default: '', required: true, placeholder: 'e.g. Customer 7 asks for a refund of order 1042 …', description: 'What the agent is to do', ...show('send') },
  {
    displayName: 'Function Name or ID', name: 'functionId', type: 'options', typeOptions: { loadOptionsMethod: 'getFunctions' }, allowArbitraryValues: true, default: '', required: true,
    description: 'Choose from the list, or specify an ID using an <a href="https://docs.n8n.io/code/expressions/">expression</a>', ...show('run'),
  },
  { displayName: 'Arguments', name: 'arguments', type: 'json', default: '{}', required: true, description: 'The arguments of the function, as a JSON object', ...show('run') },
  { displayName: 'Wait (Seconds)', name: 'waitSeconds', type: 'number', typeOptions: { minValue: 0, maxValue: 45 }, default: 20, description: 'How long to wait for the answer here. Later answers, and calls that a person decides, are for Await Turn.', ...show('run') },
  { displayName: 'Session ID', name: 'sessionId', type: 'string', default: '', description: 'The conversation to go on with. If left empty, a new one.', ...show('send', 'run') },
  { displayName: 'Agent', name: 'agent', type: 'string', default: '', placeholder: 'assistant', description: 'Which configured agent. If left empty, the one that is always there.', ...show('send') },
  { displayName: 'Model', name: 'model', type: 'string', default: '', placeholder: 'e.g. qwen3:8b', description: 'If left empty, that of the agent, else the first local model of Ollama that can call functions', ...show('send') },
  { displayName: 'Turn ID', name: 'turnId', type: 'string', default: '={{ $json.turn_id }}', required: true, ...show('status', 'stop') },
  { displayName: 'Session ID', name: 'stopSessionId', type: 'string', default: '={{ $json.session_id }}', required: true, ...show('stop') },
  options,
]
