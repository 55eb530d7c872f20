// A folder such as `dev/release` makes, with a shell script in the place of the program.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const PACKAGING = dirname(dirname(fileURLToPath(import.meta.url)));

const PLATFORM = `linux-${process.arch}`;

/** A folder of a test's own. @param {{ after: (step: () => void) => void }} t */
export function folder(t) {
  const path = mkdtempSync(join(tmpdir(), 'forkful-packaging-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/**
 * Puts a release's tarball and its SHA256SUMS into a folder.
 * @param {string} path @param {string} version
 * @returns {string} the tarball
 */
export function release(path, version) {
  const name = `forkful-${version}-${PLATFORM}`;
  const files = {
    'bin/forkful': `#!/bin/sh\necho "forkful ${version}"\n`,
    'share/man/man1/forkful.1': '.TH forkful 1\n',
    'share/man/man1/forkful-start.1': '.TH forkful-start 1\n',
    'share/bash-completion/completions/forkful': '# bash\n',
    'share/zsh/site-functions/_forkful': '# zsh\n',
    'share/fish/vendor_completions.d/forkful.fish': '# fish\n',
    'share/doc/forkful/LICENSE': readFileSync(join(PACKAGING, '../LICENSE'), 'utf8'),
    'share/doc/forkful/CHANGELOG.md': '# Changelog\n',
  };
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name, file)), { recursive: true });
    writeFileSync(join(path, name, file), text);
  }
  chmodSync(join(path, name, 'bin/forkful'), 0o755);
  const tarball = join(path, `${name}.tar.gz`);
  execFileSync('tar', ['czf', tarball, '-C', path, name]);
  rmSync(join(path, name), { recursive: true });
  const sum = createHash('sha256').update(readFileSync(tarball)).digest('hex');
  writeFileSync(join(path, 'SHA256SUMS'), `${'0'.repeat(64)}  forkful-${version}-plan9-mips.tar.gz\n${sum}  ${name}.tar.gz\n`);
  return tarball;
}
