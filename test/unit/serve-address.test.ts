/* Where the command line finds the address of serve: only while the process that wrote it lives. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { forgetAddress, rememberAddress, rememberedAddress } from '../../mcp-server/serve-address'

const base = 'http://127.0.0.1:4477'
let folder: string
beforeEach(() => { folder = mkdtempSync(join(tmpdir(), 'address-')) })
afterEach(() => { rmSync(folder, { recursive: true }) })

it('is told while its process lives, and not after it said that it ends', () => {
  rememberAddress(folder, base)
  expect(rememberedAddress(folder)).toBe(base)
  forgetAddress(folder, base)
  expect(rememberedAddress(folder)).toBeNull()
})

it('[page.link-of-living] the address of a process that was killed is told no more: somebody else may have its port', () => {
  rememberAddress(folder, base)
  const { pid } = spawnSync('true')
  const file = join(folder, 'serve.address')
  writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, 'utf8')) as object), pid }))
  expect(rememberedAddress(folder)).toBe(process.platform === 'linux' ? null : base)
})

it.each(['', 'http://127.0.0.1:4477', '{}', '{"base":"http://evil.example/"}'])('what is no address of ours is not told: %s', (text) => {
  writeFileSync(join(folder, 'serve.address'), text)
  expect(rememberedAddress(folder)).toBeNull()
})
