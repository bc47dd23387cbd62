/* Holds who may import whom (CONTRIBUTING.md), what pure folders may not touch, how long a file may grow, and that core/README.md is true. */
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join, posix } from 'node:path'

/** Pure folders in their one direction: at run time a folder uses only itself and those before it. Types may point anywhere among them. */
const pureOrder = ['identity', 'policy', 'approvals', 'executions', 'turn', 'audit', 'tasks']
const kernel = 'core/(errors|ids|clock|log|digest|json)'
const pure = `core/(${pureOrder.join('|')})/.*`
const ports = 'core/(model/(model|wire-names|ollama-url)|functions/function|store/store|engine/scheduler|hooks/.*)'
const composition = 'core/(?!harness|index$|open-harness|verify-database)[^/]+'
const inner = [kernel, pure, ports]
/** The packages of drivers: one product each, loaded when it is needed and never by merely loading the core. */
const driverPackages = {
  'model/ollama': 'ollama', 'model/openai-compatible': 'openai', 'model/anthropic': '@anthropic-ai/.*',
  'store/sqlite': 'better-sqlite3', 'store/postgres': 'pg|pg-boss', 'functions/mcp': '@modelcontextprotocol/.*',
}
const heavy = `core/(${Object.keys(driverPackages).join('|')})`
const driverOf = (folder: string): Row => ({
  files: `core/${folder}/.*`, who: `a driver in ${folder}/`, ours: [...inner, `core/${folder}/.*`], types: composition, packages: 'node:.*|zod',
})

interface Row {
  readonly files: string
  readonly who: string
  readonly ours: readonly string[]
  readonly types?: string
  readonly packages?: string
}

/** The first row whose `files` match holds: `ours` may be imported, `types` for types only; `packages` are Node's own and other people's. */
const table: readonly Row[] = [
  { files: kernel, who: 'the kernel', ours: [kernel], packages: 'node:crypto' },
  { files: pure, who: 'a pure folder', ours: [kernel, pure], packages: 'node:crypto|zod' },
  { files: ports, who: 'a port', ours: inner },
  { files: 'core/engine/.*', who: 'the engine', ours: [...inner, 'core/engine/.*'], types: composition, packages: 'node:.*' },
  {
    files: 'core/harness([-/].*)?', who: 'the harness', packages: 'node:.*|zod',
    ours: [...inner, 'core/engine/.*', 'core/harness([-/].*)?', 'core/protocol/operations'], types: composition,
  },
  { files: 'core/protocol/.*', who: 'the protocol', ours: [...inner, 'core/protocol/.*'], types: 'core/harness', packages: 'node:.*|zod' },
  { files: 'core/index', who: 'the face of the core', ours: ['core/.*'] },
  { files: 'core/(open-harness|verify-database)', who: 'the composition root', ours: ['core/.*'], packages: 'node:.*' },
  { files: composition, who: 'a composition file', ours: [...inner, composition], packages: 'node:.*|zod|yaml' },
  { files: 'core/functions/validate', who: 'schema validation', ours: inner, packages: 'node:.*|ajv.*|re2js' },
  ...Object.entries(driverPackages).map(([driver, packages]) => {
    return { ...driverOf(driver.split('/')[0] ?? ''), files: `core/${driver}`, packages: `node:.*|zod|${packages}` }
  }),
  ...['model', 'functions', 'store'].map(driverOf),
  {
    files: 'mcp-server/.*', who: 'mcp-server', ours: ['core/index', 'mcp-server/.*'],
    packages: 'node:.*|@modelcontextprotocol/.*|hono(/.*)?|@hono/.*|commander|pino',
  },
  { files: '(nodes|credentials)/.*', who: 'a node', ours: ['core/index', 'nodes/.*'], packages: 'node:.*|n8n-workflow' },
]

const root = join(__dirname, '../..')
const sources = ['core', 'mcp-server', 'nodes', 'credentials'].flatMap((folder) => {
  const names = existsSync(join(root, folder)) ? readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }) : []
  return names.filter((name) => name.endsWith('.ts')).map((name) => posix.join(folder, name))
})
const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const code = (file: string): string => read(file).replace(/\/\*[\s\S]*?\*\/|(?<!:)\/\/.*$/gm, '')
const matches = (pattern: string, text: string): boolean => new RegExp(`^(${pattern})$`).test(text)

interface Import { readonly from: string; readonly kind: 'type' | 'static' | 'lazy'; readonly target: string; readonly ours: boolean }

function importsOf(file: string): Import[] {
  const found = [
    ...[...code(file).matchAll(/^(?:import|export)\s+(type\s)?([\w\s{},*$]*?)(?:from\s*)?'([^']+)'/gm)].map(([, type, names = '', from = '']) => {
      const onlyTypes = type !== undefined || /^\{(\s*type\s[^,}]+,?)+\s*\}\s*$/.test(names)
      return { from, kind: onlyTypes ? ('type' as const) : ('static' as const) }
    }),
    ...[...code(file).matchAll(/(typeof\s+)?\b(?:import|require)\(\s*'([^']+)'/g)].map(([, type, from = '']) => {
      return { from, kind: type === undefined ? ('lazy' as const) : ('type' as const) }
    }),
  ]
  return found.map(({ from, kind }) => {
    const ours = from.startsWith('.')
    const target = posix.join(posix.dirname(file), from).replace(/\.(js|ts)$/, '')
    return { from, kind, ours, target: ours ? (existsSync(join(root, target, 'index.ts')) ? `${target}/index` : target) : from }
  })
}

function complaint(file: string, { kind, ours, target }: Import): string | null {
  const name = file.replace(/\.ts$/, '')
  const row = table.find(({ files }) => matches(files, name))
  if (row === undefined) return 'stands where no row of the table allows a file'
  const allowed = ours
    ? row.ours.some((pattern) => matches(pattern, target)) || target.endsWith('.json') || (kind === 'type' && matches(row.types ?? '', target))
    : matches(row.packages ?? '', target)
  if (!allowed) return `imports ${target}, which ${row.who} may not`
  if (kind === 'static' && !matches(heavy, name) && matches(heavy, target)) return `imports ${target} at once; it is to be loaded when needed`
  const place = (path: string): number => pureOrder.indexOf(path.split('/')[1] ?? '')
  const back = kind !== 'type' && ours && matches(pure, name) && matches(pure, target) && place(target) > place(name)
  return back ? `imports ${target}, which comes after it in ${pureOrder.join(' -> ')}` : null
}

it('[house.imports] every file imports only what its folder may', () => {
  const found = sources.flatMap((file) => importsOf(file).map((one) => [file, complaint(file, one)] as const))
  expect([...new Set(found.flatMap(([file, what]) => (what === null ? [] : [`${file}: ${what}`])))]).toEqual([])
})

it('[house.pure] pure folders touch no clock, chance, process, timer, file or network', () => {
  const impure = [
    /\bDate\.now\b/, /\bnew Date\(\)/, /\bperformance\./, /\bMath\.random\b/, /\bprocess\.\w/, /\bset(Timeout|Interval|Immediate)\b/, /\bfetch\(/,
    /node:(fs|net|https?)\b/,
  ]
  const found = sources.filter((file) => matches(pure, file)).flatMap((file) => {
    return impure.flatMap((pattern) => pattern.exec(code(file))?.[0] ?? []).map((what) => `${file}: uses ${what}`)
  })
  expect(found).toEqual([])
})

it('[house.file-size] no source file is longer than 350 lines', () => {
  const found = sources.map((file) => [file, read(file).trimEnd().split('\n').length] as const)
  expect(found.flatMap(([file, lines]) => (lines > 350 ? [`${file}: ${lines} lines`] : []))).toEqual([])
})

it('[house.reading-path] every file that core/README.md names exists', () => {
  const named = [...read('core/README.md').matchAll(/[`(]([\w./-]+(?:\.ts|\.sql|\/))[`)#:]/g)].map(([, path = '']) => path)
  expect(named.length).toBeGreaterThan(0)
  expect(named.filter((path) => !existsSync(join(root, path)) && !existsSync(join(root, 'core', path)))).toEqual([])
})
