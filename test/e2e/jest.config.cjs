/*
 * The suite on a real n8n, apart from the others: it needs an install of 3 GB and the port of Ollama. One file after the other.
 */
module.exports = {
  ...require('../../jest.config.js'),
  rootDir: '../..',
  testMatch: ['<rootDir>/test/e2e/**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  globalSetup: '<rootDir>/test/e2e/set-up.cjs',
  globalTeardown: '<rootDir>/test/e2e/tear-down.cjs',
  maxWorkers: 1,
  testTimeout: 600_000,
}
