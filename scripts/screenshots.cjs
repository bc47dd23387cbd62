'use strict'
/*
 * Takes pictures for the README in headless Chromium: of workflows in the editor of a running n8n, and of pages such as the one of an approval.
 * A picture that is too big for a repository is taken again, smaller. `npm run pictures` starts all that is needed and asks for them
 * (test/e2e/pictures.ts).
 */
const { existsSync, mkdirSync, writeFileSync } = require('node:fs')
const { tmpdir } = require('node:os')
const path = require('node:path')

const mostBytes = 150 * 1024
const scales = [1.5, 1.25, 1, 0.85, 0.7, 0.55]
const width = 1280

/** What n8n lays over a workflow: news, advice and offers. */
const notTheWorkflow = `[data-test-id="banners"], .el-notification, .el-popper, [data-radix-popper-content-wrapper], [data-reka-popper-content-wrapper],
  [data-test-id="ask-assistant-floating-button"], .vue-flow__minimap { display: none !important }`

/**
 * Pictures are { name, url, kind: 'editor' | 'execution' | 'page', height?, phone? }; answers the files, named after them. The cookie is that of
 * n8n's owner.
 */
async function takePictures({ cookie, folder, pictures }) {
  const { default: puppeteer } = await import('puppeteer-core')
  mkdirSync(folder, { recursive: true })
  // no sandbox: it needs rights that a container does not have, and only our own pages are looked at
  const browser = await puppeteer.launch({ executablePath: chromium(), args: ['--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--force-color-profile=srgb'] })
  try {
    const files = []
    for (const picture of pictures) files.push(await take(browser, picture, cookie, folder))
    return files
  } finally {
    await browser.close()
  }
}

async function take(browser, { name, url, kind, height = 720, phone = false }, cookie, folder) {
  const file = path.join(folder, `${name}.png`)
  for (const deviceScaleFactor of scales) {
    const page = await browser.newPage()
    try {
      await page.setViewport({ width: phone ? 390 : width, height, deviceScaleFactor, isMobile: phone })
      if (kind !== 'page') await logIn(page, url, cookie)
      await page.goto(url, { waitUntil: 'domcontentloaded', timeout: 60_000 })
      if (kind === 'editor') await settleEditor(page)
      if (kind === 'execution') await settleExecution(page)
      const bytes = await page.screenshot({ type: 'png', optimizeForSpeed: false, fullPage: kind === 'page' })
      if (bytes.length > mostBytes && deviceScaleFactor !== scales.at(-1)) continue
      if (bytes.length > mostBytes) throw new Error(`${name}.png would be ${bytes.length} bytes, more than ${mostBytes}`)
      writeFileSync(file, bytes)
      return file
    } catch (error) {
      const seen = path.join(tmpdir(), `harness-picture-${name}.png`)
      await page.screenshot({ path: seen }).catch(() => undefined)
      throw new Error(`${name}.png was not taken; ${seen} is what was on the screen.`, { cause: error })
    } finally {
      await page.close()
    }
  }
  throw new Error('unreachable')
}

async function logIn(page, url, cookie) {
  const { hostname } = new URL(url)
  for (const pair of cookie.split('; ')) {
    const at = pair.indexOf('=')
    await page.browserContext().setCookie({ name: pair.slice(0, at), value: pair.slice(at + 1), domain: hostname, path: '/' })
  }
}

/** Waits for the nodes on the canvas, shows them all, and takes away what is not the workflow. */
async function settleEditor(page) {
  await page.waitForSelector('.vue-flow__node', { timeout: 60_000 })
  await page.addStyleTag({ content: notTheWorkflow })
  await page.click('.vue-flow__pane').catch(() => undefined)
  await page.keyboard.press('1')
  // a line under the mouse shows its buttons
  await page.mouse.move(0, 0)
  // the view moves for a moment, and icons load
  await new Promise((resolve) => setTimeout(resolve, 2_000))
}

/** An execution shows its workflow in the page, or in a frame of its own, as n8n likes. */
async function settleExecution(page) {
  await page.waitForFunction(() => document.querySelector('.vue-flow__node, iframe') !== null, { timeout: 60_000 })
  const frame = await (await page.$('iframe'))?.contentFrame()
  await (frame ?? page).waitForSelector('.vue-flow__node', { timeout: 60_000 })
  for (const part of new Set([page, frame ?? page])) {
    await part.addStyleTag({ content: notTheWorkflow })
  }
  await new Promise((resolve) => setTimeout(resolve, 2_000))
}

function chromium() {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
  const folders = (process.env.PATH ?? '').split(path.delimiter)
  const found = process.env.CHROMIUM ?? names.flatMap((name) => folders.map((folder) => path.join(folder, name))).find((file) => existsSync(file))
  if (found === undefined) throw new Error('There is no Chromium on PATH; install one (apt-get install chromium) or name it in CHROMIUM.')
  return found
}

module.exports = { takePictures }
