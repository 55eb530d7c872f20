// Writes a software bill of materials (CycloneDX 1.5, JSON) of the program `forkful`: every crate that is compiled into it or
// runs while it is built, with version, licence, checksum and dependencies. From `cargo metadata` and Cargo.lock.
//
//   node dev/sbom.mjs target/sbom.cdx.json
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const [output] = process.argv.slice(2);
if (!output) throw new Error('usage: node dev/sbom.mjs FILE');

const arguments_ = ['metadata', '--format-version', '1', '--locked', '--filter-platform', 'x86_64-unknown-linux-gnu'];
const metadata = JSON.parse(execFileSync('cargo', arguments_, { encoding: 'utf8', maxBuffer: 256 << 20 }));
const packages = new Map(metadata.packages.map((entry) => [entry.id, entry]));
const nodes = new Map(metadata.resolve.nodes.map((node) => [node.id, node]));

/** Checksums by name and version. */
const checksums = new Map();
for (const block of readFileSync('Cargo.lock', 'utf8').split('[[package]]')) {
  const value = (key) => block.match(new RegExp(`^${key} = "(.*)"$`, 'm'))?.[1];
  if (value('checksum')) checksums.set(`${value('name')}@${value('version')}`, value('checksum'));
}

/** What a crate needs besides its tests. */
const needs = (id) => nodes.get(id).deps.filter((dep) => dep.dep_kinds.some(({ kind }) => kind !== 'dev')).map((dep) => dep.pkg);

const root = metadata.packages.find(({ name, source }) => name === 'forkful' && source === null);
const reached = new Set([root.id]);
for (const id of reached) for (const next of needs(id)) reached.add(next);

const url = ({ name, version }) => `pkg:cargo/${name}@${version}`;
const component = (id) => {
  const entry = packages.get(id);
  const checksum = checksums.get(`${entry.name}@${entry.version}`);
  return {
    type: id === root.id ? 'application' : 'library',
    'bom-ref': url(entry),
    name: entry.name,
    version: entry.version,
    ...(entry.description && { description: entry.description.trim() }),
    ...(checksum && { hashes: [{ alg: 'SHA-256', content: checksum }] }),
    ...(entry.license && { licenses: [{ expression: entry.license.replaceAll('/', ' OR ') }] }),
    purl: url(entry),
  };
};
const others = [...reached].filter((id) => id !== root.id).map(component);
others.sort((a, b) => (a.purl < b.purl ? -1 : 1));
const dependencies = [...reached].map((id) => ({
  ref: url(packages.get(id)),
  dependsOn: needs(id).map((next) => url(packages.get(next))).sort(),
}));
dependencies.sort((a, b) => (a.ref < b.ref ? -1 : 1));
// No time and no random number: the same lock file gives the same document.
const document = {
  $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
  bomFormat: 'CycloneDX',
  specVersion: '1.5',
  version: 1,
  metadata: { component: component(root.id) },
  components: others,
  dependencies,
};
writeFileSync(output, `${JSON.stringify(document, null, 1)}\n`);
console.log(`${output}: ${others.length} crates`);
