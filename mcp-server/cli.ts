#!/usr/bin/env node
/*
 * The command agent-harness. It looks at the version of Node before anything is loaded that a wrong one would die of, so this file
 * keeps to syntax and functions that are old themselves and imports nothing but by import().
 */
export {}

const needed = '22.13'
const parts = process.versions.node.split('.').map(Number)

if (isNewEnough()) {
  // the name ends in .js because import() of a CommonJS file follows the rules of ES modules
  import('./program.js').then(
    (program) => program.main(process.argv),
    (error: unknown) => {
      process.stderr.write('agent-harness cannot be loaded: ' + String(error) + '\n')
      process.exit(1)
    },
  )
} else {
  process.stderr.write(whatIsNeeded() + '\n')
  if (commandWord() !== 'stdio') process.exit(1)
  // a client shows its user the error that answers initialize, and nothing of stderr
  import('./refuse-client.js').then(
    (refusal) => {
      refusal.refuseClient(
        whatIsNeeded(),
        (text, done) => {
          process.stdout.write(text, done)
        },
        process.stdin,
      )
    },
    () => process.exit(1),
  )
}

function isNewEnough(): boolean {
  const least = needed.split('.').map(Number)
  return Number(parts[0]) > Number(least[0]) || (parts[0] === least[0] && Number(parts[1]) >= Number(least[1]))
}

function whatIsNeeded(): string {
  return (
    'agent-harness needs Node ' +
    needed +
    ' or newer, this is ' +
    process.versions.node +
    '. ' +
    'Install Node 24 (https://nodejs.org) and let the command start with that one, for an MCP client by its full path.'
  )
}

/** The first word that is neither an option nor the value of one. */
function commandWord(): string {
  const words = process.argv.slice(2)
  for (let at = 0; at < words.length; at += 1) {
    const word = String(words[at])
    if (word === '--home' || word === '--database') at += 1
    else if (word.charAt(0) !== '-') return word
  }
  return ''
}
