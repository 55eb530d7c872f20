// Evaluates one configuration file and writes what it exports, as JSON, to descriptor 3; the file may
// print to stdout as it likes. Run as `node -e <this> <absolute path>` by read/script.rs, never by itself.
'use strict'

const { writeSync } = require('node:fs')
const { pathToFileURL } = require('node:url')

const RESULT_DESCRIPTOR = 3
const url = pathToFileURL(process.argv[1]).href

function send(result) {
  const bytes = Buffer.from(JSON.stringify(result, readable))
  let written = 0
  while (written < bytes.length) written += writeSync(RESULT_DESCRIPTOR, bytes, written)
}

/**
 * Regular expressions, of `ignore_watch`, are nothing that JSON could hold, nor are NaN and infinite numbers, which the checks of a key refuse. A variable
 * takes any text: such a number leaves it as it is, as null does.
 */
function readable(key, value) {
  if (/^env(_|$)/.test(key) && Object.prototype.toString.call(value) === '[object Object]') {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, typeof item === 'number' && !Number.isFinite(item) ? null : item]))
  }
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  if (!(value instanceof RegExp)) return value
  // The other flags have no meaning for one look at a path.
  const flags = [...value.flags].filter((flag) => 'ims'.includes(flag)).join('')
  return { $regexp: flags === '' ? value.source : `(?${flags})${value.source}` }
}

/** The default export, else the named exports; of transpiled CommonJS the inner default export. */
function exported(module) {
  if (module.default === undefined) return { ...module }
  const value = module.default
  return value !== null && value.__esModule && value.default !== undefined ? value.default : value
}

async function evaluate() {
  let value = exported(await import(url))
  if (typeof value === 'function') value = value()
  value = await value
  return value === undefined ? null : value
}

function describe(error) {
  if (!(error instanceof Error)) return { message: `it threw ${String(error)}`, stack: '' }
  const first = String(error.message).split('\n')[0]
  return { message: `${error.name}: ${first}`, stack: String(error.stack), code: error.code, url }
}

evaluate().then((value) => {
  send({ value })
  // Whatever the file has opened (timers, sockets) does not keep the evaluation alive.
  process.exit(0)
}).catch((error) => {
  send({ error: describe(error) })
  // Uncaught, so that Node itself prints the line of a syntax error, which no property tells.
  setImmediate(() => { throw error })
})
