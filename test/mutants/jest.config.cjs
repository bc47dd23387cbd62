/* The mutants apart from the other tests: each is a build and a run of its own. */
module.exports = {
  ...require('../../jest.config.js'),
  rootDir: '../..',
  testMatch: ['<rootDir>/test/mutants/**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  maxWorkers: 1,
}
