/* Addresses of Ollama mean what they mean to Ollama. */
import { isHarnessError } from '../../core/errors'
import { ollamaUrl } from '../../core/model/ollama-url'

it.each([
  ['', 'http://127.0.0.1:11434'],
  ['  ', 'http://127.0.0.1:11434'],
  ['box', 'http://box:11434'],
  ['box:1234', 'http://box:1234'],
  ['box:80', 'http://box:80'],
  [':1234', 'http://127.0.0.1:1234'],
  ['0.0.0.0', 'http://127.0.0.1:11434'],
  ['0.0.0.0:8080', 'http://127.0.0.1:8080'],
  ['http://0.0.0.0:11434', 'http://127.0.0.1:11434'],
  ['::', 'http://127.0.0.1:11434'],
  ['::1', 'http://[::1]:11434'],
  ['[::1]:1234', 'http://[::1]:1234'],
  ['"10.0.0.5"', 'http://10.0.0.5:11434'],
  ['http://box', 'http://box:80'],
  ['https://box', 'https://box:443'],
  ['https://box:11434/llm/?x=1#y', 'https://box:11434/llm'],
  ['HTTP://BOX:11434/', 'http://box:11434'],
  ['box/llm', 'http://box:11434/llm'],
])('%j is %s, and stays so', (given, url) => {
  expect(ollamaUrl(given)).toBe(url)
  expect(ollamaUrl(url)).toBe(url)
})

it.each(['http://user:pass@box', 'user@box:11434', 'ftp://box', 'file:///etc/passwd', 'http://', 'box:port', 'a b', 'http://box:99999'])(
  '%j is refused without being repeated', (given) => {
    try {
      ollamaUrl(given)
    } catch (error) {
      expect(isHarnessError(error) && error.code).toBe('bad_config')
      expect((error as Error).message).not.toContain('pass@')
      return
    }
    throw new Error('it was accepted')
  })
