/* Edits of harness.yaml by commands: of the text as it is now, since a person may have it open, or another command may be at it. */
import type { Home } from '../core/index'

const mostTries = 5

/** Replaces the text by what `edit` makes of it, again when it changed meanwhile. Throws what `edit` throws, and what reading and writing do. */
export async function editConfig(home: Home, edit: (text: string) => string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const before = await home.readConfig()
    try {
      await home.replaceConfig(before, edit(before))
      return
    } catch (error) {
      if (tries >= mostTries || (await home.readConfig()) === before) throw error
    }
  }
}
