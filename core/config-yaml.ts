/*
 * Reads harness.yaml strictly: what two readers could take in two ways (duplicate keys, anchors, merge keys, odd tags) is refused with
 * its line and column. Texts of the file never appear in an error, save names of settings: any of them could be a secret.
 */
import { isAlias, isCollection, isMap, isScalar, isSeq, LineCounter, parseDocument, visit, type Document } from 'yaml'
import { HarnessError } from './errors'

export const configName = 'harness.yaml'
export const maxConfigBytes = 1 << 20
const maxDepth = 64
const shownProblems = 5

/** Something wrong at a place: a path of keys and indexes into the file, or an offset into its text. */
export interface Problem {
  readonly at: readonly PropertyKey[] | number
  /** A sentence without its subject when `at` is a path ("must be …"), a whole one when it is an offset. */
  readonly text: string
}

export interface ConfigDocument {
  /** Plain JSON values; an empty file is `{}`. */
  readonly value: unknown
  /** Throws `bad_config` that names line, column, setting and what is wrong, for the first five problems in the order of the file. */
  refuse(problems: readonly Problem[]): never
}

const yamlProblems: Readonly<Record<string, string>> = {
  DUPLICATE_KEY: 'This name stands twice in one place. Keep one of them.',
  BAD_ALIAS: 'References (*name) are not supported. Write the value out again.',
  TAB_AS_INDENT: 'A tab indents this line. Use spaces.',
  BAD_INDENT: 'The indentation does not fit the lines above. Give the settings of one level the same number of spaces.',
  MISSING_CHAR: 'Something is missing here: a closing quote or bracket, a colon, or a comma.',
  MULTILINE_IMPLICIT_KEY: 'A name must stand on one line and be followed by a colon. Is a colon or a quote missing?',
  BLOCK_AS_IMPLICIT_KEY: 'There is a second colon on this line. Put a text that holds ": " in quotes.',
  NON_STRING_KEY: 'A name must be a simple text. Put it in quotes.',
  MULTIPLE_DOCS: 'A second document begins here (---). The configuration is one document.',
  BAD_DQ_ESCAPE: 'A text in double quotes holds a backslash that means nothing. Use single quotes, or write two of them.',
  BAD_SCALAR_START: 'A text may not begin with this character. Put it in quotes.',
  TAG_RESOLVE_FAILED: 'Tags (!name) are not supported. Remove it.',
  BAD_DIRECTIVE: 'Directives (%…) are not supported. Remove the line.',
  RESOURCE_EXHAUSTION: 'This is nested too deeply.',
}

/** Parses the text. Throws `bad_config`. */
export function readConfigDocument(text: string): ConfigDocument {
  if (Buffer.byteLength(text) > maxConfigBytes) {
    throw new HarnessError('bad_config', `${configName} is larger than ${String(maxConfigBytes)} bytes. Remove what is not configuration.`)
  }
  const lines = new LineCounter()
  const document = notTooDeep(() => parseConfig(text, lines))
  const refuse = (problems: readonly Problem[]): never => fail(document, lines, problems)
  const errors = [...document.errors, ...document.warnings]
  if (errors.length > 0) {
    const first = errors.find((error) => error.code === 'RESOURCE_EXHAUSTION')
    const textOf = (code: string): string => yamlProblems[code] ?? `This is not valid YAML (${code}).`
    refuse((first === undefined ? errors : [first]).map((error) => ({ at: error.pos[0], text: textOf(error.code) })))
  }
  const problems = notTooDeep(() => findUnsafe(document))
  if (problems.length > 0) refuse(problems)
  return { value: (document.toJS({ maxAliasCount: 0 }) as unknown) ?? {}, refuse }
}

/** The same reading for those who edit the file: the document keeps comments. Throws `bad_config`. */
export function editableDocument(text: string): Document {
  readConfigDocument(text)
  return parseConfig(text, new LineCounter())
}

function parseConfig(text: string, lineCounter: LineCounter): Document {
  return parseDocument(text, {
    lineCounter, prettyErrors: false, strict: true, stringKeys: true, uniqueKeys: true, logLevel: 'error',
    schema: 'core', merge: false, resolveKnownTags: false,
  })
}

function notTooDeep<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new HarnessError('bad_config', `${configName} is nested too deeply (at most ${String(maxDepth)} levels).`, { cause: error })
  }
}

function findUnsafe(document: Document): Problem[] {
  const problems: Problem[] = []
  const say = (range: readonly number[] | null | undefined, text: string): void => {
    problems.push({ at: range?.[0] ?? 0, text })
  }
  if (document.directives?.yaml.explicit === true) say([0], yamlProblems['BAD_DIRECTIVE'] ?? '')
  visit(document, {
    Node(_key, node, path) {
      if (isAlias(node)) say(node.range, yamlProblems['BAD_ALIAS'] ?? '')
      else if (node.anchor !== undefined) say(node.range, 'Anchors (&name) are not supported. Remove it, and write the value out where it is needed.')
      if (path.length > maxDepth * 2) {
        say(node.range, `This is nested too deeply (at most ${String(maxDepth)} levels).`)
        return visit.BREAK
      }
      if (isScalar(node) && typeof node.value === 'number') {
        if (!Number.isFinite(node.value)) say(node.range, 'A number must be finite.')
        else if (Number.isInteger(node.value) && !Number.isSafeInteger(node.value)) {
          say(node.range, 'This number is too large to be held exactly. Put it in quotes if it is a text.')
        }
      }
      return undefined
    },
    Pair(_key, pair) {
      if (!isScalar(pair.key)) return
      if (pair.key.value === '__proto__') say(pair.key.range, 'The name __proto__ is not allowed. Remove it.')
      if (pair.key.value === '<<') say(pair.key.range, 'Merge keys (<<) are not supported. Write the settings out.')
    },
  })
  return problems
}

/** Where the deepest part of the path that exists begins. */
function offsetOf(document: Document, path: readonly PropertyKey[]): number {
  let node: unknown = document.contents
  let offset = 0
  for (const key of path) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(key))
      if (pair === undefined) break
      if (isScalar(pair.key)) offset = pair.key.range?.[0] ?? offset
      node = pair.value
    } else if (isSeq(node) && typeof key === 'number') {
      node = node.items[key]
      if (isScalar(node) || isCollection(node)) offset = node.range?.[0] ?? offset
    } else break
  }
  return offset
}

/** `functions.shop::refund.risk`, `policy.rules[1].effect`. */
function nameOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((name, key) => {
    if (typeof key === 'number') return `${name}[${String(key)}]`
    const shown = /^[\w:.-]{1,60}$/.test(String(key)) ? String(key) : JSON.stringify(String(key).slice(0, 60))
    return name === '' ? shown : `${name}.${shown}`
  }, '')
}

function fail(document: Document, lines: LineCounter, problems: readonly Problem[]): never {
  const placed = problems.map(({ at, text }) => {
    const offset = typeof at === 'number' ? at : offsetOf(document, at)
    const { line, col } = lines.linePos(offset)
    const subject = typeof at === 'number' ? '' : `${nameOf(at) || 'The configuration'} `
    return { line: Math.max(line, 1), column: Math.max(col, 1), text: `${subject}${text}` }
  })
  placed.sort((left, right) => left.line - right.line || left.column - right.column)
  const first = placed.slice(0, shownProblems)
  const shown = first.map(({ line, column, text }) => `${configName} line ${String(line)}, column ${String(column)}: ${text}`)
  if (placed.length > shownProblems) shown.push(`… and ${String(placed.length - shownProblems)} more.`)
  throw new HarnessError('bad_config', shown.join('\n'), { data: { problems: placed } })
}
