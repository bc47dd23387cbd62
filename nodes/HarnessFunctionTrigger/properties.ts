/* The parameters of the Function Trigger, as the editor shows them. */
import type { INodeProperties } from 'n8n-workflow'
import { harnessProperty } from '../shared/connect'

export const triggerProperties: INodeProperties[] = [
  harnessProperty,
  {
    displayName: 'Publish the workflow and agents can call it. To try the steps in the editor, pin sample arguments on this node.',
    name: 'notice', type: 'notice', default: '',
  },
  {
    displayName: 'Function Name', name: 'functionId', type: 'string', noDataExpression: true, default: '', required: true, placeholder: 'refund',
    description: 'How agents call it: a-z, 0-9 and _. It is put under workflow::, or the namespace of the configuration.',
  },
  {
    displayName: 'Description', name: 'functionDescription', type: 'string', noDataExpression: true, typeOptions: { rows: 3 }, default: '', required: true, placeholder: 'Refunds an order in whole or in part.',
    description: 'What the function (tool) does and when to use it, for the agent and for the person who decides',
  },
  {
    displayName: 'Arguments', name: 'arguments', type: 'fixedCollection', typeOptions: { multipleValues: true, sortable: true }, placeholder: 'Add argument', default: {},
    options: [{
      displayName: 'Argument', name: 'argument',
      values: [
        { displayName: 'Choices', name: 'choices', type: 'string', noDataExpression: true, default: '', placeholder: 'small, medium, large', displayOptions: { show: { type: ['choice'] } } },
        { displayName: 'Description', name: 'description', type: 'string', noDataExpression: true, default: '' },
        { displayName: 'Name', name: 'name', type: 'string', noDataExpression: true, default: '' },
        { displayName: 'Required', name: 'required', type: 'boolean', noDataExpression: true, default: true },
        {
          displayName: 'Type', name: 'type', type: 'options', noDataExpression: true, default: 'text',
          options: [
            { name: 'List of Texts', value: 'texts' }, { name: 'Number', value: 'number' }, { name: 'Object', value: 'object' }, { name: 'One of Some', value: 'choice' },
            { name: 'Text', value: 'text' }, { name: 'Whole Number', value: 'integer' }, { name: 'Yes or No', value: 'boolean' },
          ],
        },
      ],
    }],
  },
  {
    displayName: 'Risk', name: 'risk', type: 'options', noDataExpression: true, default: 'medium',
    options: [
      { name: 'High', value: 'high', description: 'A person decides about every call' },
      { name: 'Low', value: 'low', description: 'Little can go wrong' },
      { name: 'Medium', value: 'medium', description: 'A person decides unless the limits below hold' },
    ],
  },
  {
    displayName: 'Side Effects', name: 'sideEffects', type: 'options', noDataExpression: true, default: 'write',
    options: [
      { name: 'None', value: 'none', description: 'Computes only' },
      { name: 'Reads', value: 'read', description: 'Reads data; changes nothing' },
      { name: 'Writes', value: 'write', description: 'Changes something in the world' },
    ],
  },
  {
    displayName: 'Runs Without a Person When', name: 'unattended', type: 'fixedCollection', typeOptions: { multipleValues: true }, placeholder: 'Add limit', default: {},
    description: 'All of these must hold. Without a limit a person decides about every call that writes.',
    displayOptions: { show: { sideEffects: ['write'] }, hide: { risk: ['high'] } },
    options: [{
      displayName: 'Limit', name: 'limit',
      values: [
        { displayName: 'Argument', name: 'argument', type: 'string', noDataExpression: true, default: '' },
        {
          displayName: 'Test', name: 'test', type: 'options', noDataExpression: true, default: 'at_most',
          options: [
            { name: 'Is at Least', value: 'at_least' }, { name: 'Is at Most', value: 'at_most' }, { name: 'Is Equal To', value: 'equals' },
            { name: 'Is One Of', value: 'one_of' }, { name: 'Matches Pattern', value: 'matches' },
          ],
        },
        { displayName: 'Value', name: 'value', type: 'string', noDataExpression: true, default: '', description: 'Several with commas between' },
      ],
    }],
  },
  {
    displayName: 'Options', name: 'options', type: 'collection', placeholder: 'Add option', default: {},
    options: [
      { displayName: 'Idempotent', name: 'idempotent', type: 'boolean', noDataExpression: true, default: false, description: 'Whether a repeated call with the same harness.call_id has no further effect. Then a call that a crash cut is sent again; otherwise never.' },
      { displayName: 'Time Limit (Seconds)', name: 'timeLimit', type: 'number', noDataExpression: true, typeOptions: { minValue: 1, maxValue: 86_400 }, default: 300 },
    ],
  },
]
