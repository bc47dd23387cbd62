/*
 * Copies into dist/ what the compiler leaves behind: migrations, schemas and, once there are nodes, their icons and codex files.
 */
const { dest, src } = require('gulp')

const assets = ['core', 'nodes', 'credentials', 'mcp-server'].map((folder) => `${folder}/**/*.{sql,json,svg,png,html,css,yaml}`)

function copyAssets() {
  return src(assets, { base: '.', encoding: false, allowEmpty: true }).pipe(dest('dist'))
}

exports.default = copyAssets
