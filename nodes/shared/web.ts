/* The request and the answer behind a webhook of n8n, as far as we use them; n8n gives those of Express, whose types we do not ship. */
import type { IWebhookFunctions } from 'n8n-workflow'

export interface WebRequest {
  readonly method: string
  /** Path and query as they arrived. */
  readonly originalUrl: string
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly rawBody?: Buffer
}

interface WebAnswer {
  status(code: number): WebAnswer
  set(headers: Readonly<Record<string, string>>): WebAnswer
  send(body: string): WebAnswer
  json(body: unknown): WebAnswer
}

export function requestOf(context: IWebhookFunctions): WebRequest {
  return (context as unknown as { getRequestObject(): WebRequest }).getRequestObject()
}

export function answerOf(context: IWebhookFunctions): WebAnswer {
  return (context as unknown as { getResponseObject(): WebAnswer }).getResponseObject()
}

export function queryText(context: IWebhookFunctions, name: string): string | null {
  const value: unknown = Reflect.get(context.getQueryData(), name)
  return typeof value === 'string' ? value : null
}
