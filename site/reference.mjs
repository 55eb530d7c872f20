// Writes the reference pages that come from other files: docs/API.md and docs/EVENTS.md from the description of the API, docs/JAVASCRIPT.md from
// the types of the package. `npm run reference --prefix site` writes them; a test holds the pages equal to their sources.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const read = (file) => readFileSync(path.join(ROOT, file), 'utf8');
const AGAIN = '`npm run reference --prefix site` writes it again.';

const api = JSON.parse(read('crates/forkful-api/openapi.json'));
const { schemas } = api.components;

/** Schemas of replies that repeat those of requests are left out: the fields are the same. */
const isShown = (name) => !name.endsWith('Output');
const cell = (text) => text.replaceAll('\n', ' ').replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll(/`crate::[\w:]+`/g, 'the client').trim();
const named = (name) => `[${name.replace(/Output$/, '')}](#${name.replace(/Output$/, '').toLowerCase()})`;

/** What a value may be, in words; `link` makes a link of a type's name. */
function type(schema, link = named) {
  if (schema === true || schema === undefined) return 'any';
  if (schema.$ref) return link(schema.$ref.split('/').at(-1));
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  const several = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (several) return [...new Set(several.map((one) => type(one, link)))].join(' or ');
  if (schema.enum) return schema.enum.map((one) => `\`${JSON.stringify(one)}\``).join(', ');
  const kinds = [schema.type ?? 'any'].flat();
  return kinds.map((kind) => {
    if (kind === 'array') return `list of ${type(schema.items, link)}`;
    if (kind === 'object' && schema.additionalProperties) return `object of ${type(schema.additionalProperties, link)}`;
    return kind;
  }).join(' or ');
}

function fields({ properties = {}, required = [] }) {
  const rows = Object.entries(properties).map(([name, schema]) =>
    `| \`${name}\` | ${cell(type(schema))} | ${required.includes(name) ? '' : 'optional. '}${cell(schema.description ?? '')} |`);
  return rows.length === 0 ? [] : ['', '| field | type | meaning |', '| --- | --- | --- |', ...rows];
}

/** `{ "name": string }`: a variant that holds something. */
const holder = ({ properties }) => `{ ${Object.entries(properties).map(([key, schema]) => `"${key}": ${type(schema, (name) => name)}`).join(', ')} }`;

function values({ oneOf = [] }) {
  const written = (one) => (one.properties ? holder(one) : one.const !== undefined && JSON.stringify(one.const));
  const rows = oneOf.filter(written).map((one) => `| \`${cell(written(one))}\` | ${cell(one.description ?? '')} |`);
  return rows.length === 0 ? [] : ['', '| value | meaning |', '| --- | --- |', ...rows];
}

/** What a body holds; a line of a stream has a schema of its own. */
function body(content) {
  const [[media, { schema, 'x-line': line }]] = Object.entries(content);
  if (line) return `lines of ${type(line)} (\`${media}\`)`;
  return media === 'text/event-stream' ? '[events](EVENTS.md)' : type(schema);
}

function operation(method, address, { summary, description, parameters = [], requestBody, responses }) {
  const lines = ['', `### \`${method.toUpperCase()} ${address}\``, `${summary}. ${description ?? ''}`.trim()];
  if (parameters.length > 0) lines.push('', '| parameter | in | type | meaning |', '| --- | --- | --- | --- |');
  for (const one of parameters) lines.push(`| \`${one.name}\` | ${one.in} | ${cell(type(one.schema))} | ${cell(one.description ?? '')} |`);
  lines.push('');
  if (requestBody) lines.push(`- Request: ${body(requestBody.content)}`);
  for (const [status, answer] of Object.entries(responses)) {
    if (answer.content) lines.push(`- ${status}: ${body(answer.content)}. ${answer.description}`);
  }
  const errors = Object.keys(responses).filter((status) => Number(status) >= 400);
  if (errors.length > 0) lines.push(`- ${errors.join(', ')}: ${named('ErrorReply')}`);
  return lines;
}

export function apiPage() {
  const operations = Object.entries(api.paths).flatMap(([address, methods]) => Object.entries(methods).flatMap(([method, one]) => operation(method, address, one)));
  const types = Object.entries(schemas).filter(([name]) => isShown(name)).flatMap(([name, schema]) =>
    ['', `### ${name}`, cell(schema.description ?? ''), ...values(schema), ...fields(schema)]);
  return `# API of the daemon

Generated from [openapi.json](../crates/forkful-api/openapi.json), which other programs can read; ${AGAIN}

The command, the [JavaScript client](JAVASCRIPT.md) and your own programs use the same API: ${api.info.description}

\`\`\`sh
forkful start app.js --name api
ask() { curl --silent --fail --unix-socket "$FORKFUL_HOME/forkful.sock" "$@"; }
ask http://localhost/v1/ping
ask http://localhost/v1/actions/reload \\
  --header 'content-type: application/json' \\
  --data '{ "targets": ["api"] }'
\`\`\`

Without \`FORKFUL_HOME\`, the socket is \`~/.forkful/forkful.sock\`. An error may have a \`hint\`, and in \`see\` the address of the page that says more.

## Requests
${operations.join('\n').trim()}

## Types
${types.join('\n').trim()}
`;
}

export function eventsPage() {
  const { description, parameters, responses } = api.paths['/v1/events'].get;
  const events = Object.entries(responses['200'].content['text/event-stream']['x-events']);
  const link = (name) => `[${name}](API.md#${name.toLowerCase()})`;
  const rows = events.map(([name, schema]) => {
    const key = schema.$ref.split('/').at(-1);
    return `| \`${name}\` | ${type(schema, link)} | ${cell(schemas[key].description.replace(/One line of .*/, 'A line that a worker wrote.'))} |`;
  });
  const steps = schemas.LifeStep.oneOf.map((step) => `| \`${step.const}\` | ${cell(step.description)} |`);
  const options = parameters.map((one) => `| \`${one.name}\` | \`${one.schema.default}\` | ${cell(one.description)} |`);
  return `# Events

Generated from [openapi.json](../crates/forkful-api/openapi.json); ${AGAIN}

A program can follow what happens to apps: for alarms, for a page of your own, for tests that wait until a worker is online.

\`\`\`js
// watch.mjs
import { events } from 'forkful';

const stream = events({ targets: 'api' });
for await (const event of stream) {
  if (event.type === 'process:event') console.log(\`\${event.app} \${event.pm_id}: \${event.event}\`);
  if (event.type === 'process:event' && event.event === 'reload') break;
}
\`\`\`
\`\`\`sh
forkful start app.js --name api
node watch.mjs > events.txt & watching=$!
until [ -s events.txt ]; do forkful reload api; done      # the stream begins when it is connected
wait $watching
cat events.txt
\`\`\`
\`\`\`text
api 0: reload
\`\`\`

From other languages: server-sent events on the daemon's socket ([API](API.md#get-v1events)).

<!-- run: ln -sfn "$FORKFUL_HOME" ~/.forkful -->
<!-- ends with Ctrl-C after: : -->
\`\`\`sh
curl --no-buffer --unix-socket ~/.forkful/forkful.sock 'http://localhost/v1/events?logs=true'
\`\`\`

## What there is
${description}

| event | data | meaning |
| --- | --- | --- |
${rows.join('\n')}

A stream on the socket belongs to one daemon: also \`forkful update\` ends it with \`daemon:ending\`, and it is cut off when the daemon is killed. Connect again to go on with the next daemon.
\`events()\` of JavaScript does so by itself, as \`forkful events -f\` does; it misses what happens until it is connected again. It ends after \`daemon:ending\` when the daemon is stopped, and
throws \`NO_DAEMON\` when the daemon ended unexpectedly and no other has taken over.

## Steps of a worker's life
\`event\` of a \`process:event\`:

| step | meaning |
| --- | --- |
${steps.join('\n')}

## Parameters
| parameter | default | meaning |
| --- | --- | --- |
${options.join('\n')}

The daemon never waits for a reader, and keeps at most 4,096 events or 8 MB for each. A program that reads more slowly gets \`events:skipped\` with the number of events that were left out. So does one that follows lines of output, also with \`targets\`: lines are counted whatever app wrote them.
`;
}

/** The declarations of a file of types with the comment above each: `{ doc, text, kind, name }`. */
function declarations(source) {
  const found = [];
  const pattern = /(?:\/\*\*([\s\S]*?)\*\/\n)?export (interface|class|function|const|type) (\w+)([\s\S]*?)(?=\n(?:\/\*\*|export|declare|import|\/\/)|\n*$)/g;
  for (const [, doc = '', kind, name, rest] of source.matchAll(pattern)) {
    const text = doc.split('\n').map((line) => line.replace(/^\s*\*? ?/, '')).join(' ').replaceAll(/\s+/g, ' ').trim();
    found.push({ doc: text, kind, name, text: `export ${kind} ${name}${rest}`.trim() });
  }
  return found;
}

/** The methods of a class, by name: all its signatures. */
function methods(text) {
  const all = new Map();
  for (const [, name, signature] of text.matchAll(/^ {2}(\w+)(\([^\n]*\): [^\n]*);$/gm)) all.set(name, [...(all.get(name) ?? []), `${name}${signature}`]);
  return all;
}

export function javascriptPage() {
  const all = [...declarations(read('npm/forkful/index.d.ts')), ...declarations(read('npm/forkful/index.views.d.ts'))];
  const client = methods(all.find(({ name, kind }) => kind === 'class' && name === 'Client').text);
  const functions = new Map();
  for (const { kind, name, text, doc } of all) {
    const alias = /Client\['(\w+)'\]/.exec(text)?.[1];
    if (kind !== 'function' && !(kind === 'const' && alias)) continue;
    const known = functions.get(name) ?? { doc: '', signatures: [] };
    const own = text.replace(/^export function /, '').replace(/;$/, '');
    const signatures = alias ? (client.get(alias) ?? []).map((one) => name + one.slice(alias.length)) : [own];
    functions.set(name, { doc: known.doc || doc, signatures: [...known.signatures, ...signatures] });
  }
  const sections = [...functions].sort(([a], [b]) => a.localeCompare(b)).map(([name, { doc, signatures }]) =>
    `### ${name}\n${doc ? `${doc.replaceAll('<', '&lt;')}\n` : ''}\n\`\`\`ts\n${signatures.join('\n')}\n\`\`\`\n`);
  const types = all.filter(({ kind, name }) => ['interface', 'type', 'class'].includes(kind) && name !== 'App')
    .map(({ name, doc, text }) => `### ${name}\n${doc ? `${doc.replaceAll('<', '&lt;')}\n` : ''}\n\`\`\`ts\n${text}\n\`\`\`\n`);
  return `# JavaScript client

Functions and types generated from [index.d.ts](../npm/forkful/index.d.ts); ${AGAIN}

\`npm install forkful\` brings a client of the daemon with types, for ESM and CommonJS. It starts the daemon when there is something to run.

\`\`\`js
// control.mjs
import { connect, ForkfulError, list, reload, start, stop } from 'forkful';

await start({ script: 'app.js', name: 'api', instances: 2 });
await reload('api');
for (const app of await list()) {
  for (const worker of app.workers) console.log(app.definition.name, worker.pm_id, worker.status);
}

try {
  await stop('nope');
} catch (error) {
  if (!(error instanceof ForkfulError)) throw error;
  console.log(error.code, '-', error.message);
}

const client = await connect();        // the same functions as methods, for one daemon
await client.delete('api');
\`\`\`
\`\`\`sh
node control.mjs
\`\`\`
\`\`\`text
api 0 online
api 1 online
NO_SUCH_TARGET - no app or worker \`nope\`
\`\`\`

Every function gives a promise. What fails is a \`ForkfulError\` with a \`code\`, a message that says what was wrong, mostly a \`hint\` that says what to do, and in \`see\` the address of the page
that says more. \`require('forkful/pm2')\` has PM2's own functions: [from PM2](FROM-PM2.md#from-javascript). What happens can be followed: [Events](EVENTS.md).

## Functions
${sections.join('\n').trim()}

## Types
\`App\` has the keys of [the configuration](CONFIG.md).

${types.join('\n').trim()}
`;
}

export const PAGES = { 'API.md': apiPage, 'EVENTS.md': eventsPage, 'JAVASCRIPT.md': javascriptPage };

if (process.argv.includes('--write')) {
  for (const [file, page] of Object.entries(PAGES)) writeFileSync(path.join(ROOT, 'docs', file), page());
}
