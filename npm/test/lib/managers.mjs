// The package managers, each with its own way to say: this registry, this folder, nothing outside of it.
import { execFile } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const MODULES = fileURLToPath(new URL('../node_modules/', import.meta.url));
const YARN_1 = join(MODULES, 'yarn/bin/yarn.js');
const YARN = join(MODULES, '@yarnpkg/cli-dist/bin/yarn.js');
const PNPM = join(MODULES, 'pnpm/bin/pnpm.cjs');
const BUN = join(MODULES, '.bin/bun');

const NODE = process.execPath;

/**
 * Runs something with everything that it keeps below a folder.
 * @param {string} program @param {string[]} args @param {string} cwd @param {string} address of the registry
 * @param {string} [home] the folder, where it is not the working directory
 * @returns {Promise<string>} its stdout
 */
export async function run(program, args, cwd, address, home = cwd) {
  const { FORKFUL_BIN: _unset, NODE_TEST_CONTEXT: _context, ...own } = process.env;
  const inherited = Object.fromEntries(Object.entries(own).filter(([name]) => !/^(npm|yarn|pnpm|bun)_/i.test(name)));
  const env = {
    ...inherited,
    HOME: home,
    PATH: `${join(home, 'pnpm')}:${process.env.PATH}`,
    npm_config_registry: address,
    npm_config_cache: join(home, '.cache-npm'),
    // bun, Yarn 1
    BUN_CONFIG_REGISTRY: address,
    BUN_INSTALL: join(home, '.bun'),
    BUN_INSTALL_CACHE_DIR: join(home, '.cache-bun'),
    BUN_TMPDIR: join(home, '.tmp-bun'),
    YARN_CACHE_FOLDER: join(home, '.cache-yarn'),
    // pnpm
    PNPM_HOME: join(home, 'pnpm'),
    XDG_DATA_HOME: join(home, '.data'),
    XDG_CACHE_HOME: join(home, '.cache'),
    XDG_STATE_HOME: join(home, '.state'),
    XDG_CONFIG_HOME: join(home, '.config'),
  };
  try {
    return (await promisify(execFile)(program, args, { cwd, env })).stdout;
  } catch (error) {
    // Some tell on stdout what went wrong.
    error.message += error.stdout;
    throw error;
  }
}

/** How a newer Yarn is told everything. */
function configureYarn(folder, address, linker, architectures = '') {
  writeFileSync(join(folder, 'yarn.lock'), '', { flag: 'a' });
  writeFileSync(join(folder, '.yarnrc.yml'), `npmRegistryServer: "${address.replace(/\/$/, '')}"
unsafeHttpWhitelist: ["127.0.0.1"]
enableTelemetry: false
enableGlobalCache: false
globalFolder: "${folder}/.yarn-global"
npmMinimalAgeGate: 0
nodeLinker: ${linker}
${architectures}`);
}

const NPM_QUIET = ['--no-audit', '--no-fund'];
const local = (folder) => [join(folder, 'node_modules/.bin/forkful')];
const npm = (...more) => ({ install: (folder, address) => run('npm', ['install', 'forkful', ...NPM_QUIET, ...more], folder, address), command: local });
const yarn = (linker) => ({
  install: (folder, address) => {
    configureYarn(folder, address, linker);
    return run(NODE, [YARN, 'add', 'forkful'], folder, address);
  },
  command: () => [NODE, YARN, 'run', 'forkful'],
});

/** As a dependency of a project. */
export const PROJECTS = {
  npm: npm(),
  'npm --ignore-scripts': npm('--ignore-scripts'),
  'npm --install-strategy=linked': npm('--install-strategy=linked'),
  pnpm: { install: (folder, address) => run(NODE, [PNPM, 'add', 'forkful'], folder, address), command: local },
  'Yarn 1': { install: (folder, address) => run(NODE, [YARN_1, 'add', 'forkful', '--non-interactive'], folder, address), command: local },
  Yarn: yarn('node-modules'),
  'Yarn with Plug\'n\'Play': yarn('pnp'),
  bun: { install: (folder, address) => run(BUN, ['add', 'forkful'], folder, address), command: local },
};

const MAC = ['--os=darwin', '--cpu=arm64'];
const without = (folder) => rmSync(join(folder, 'node_modules'), { recursive: true });

/** `make` leaves what a Mac would commit, `install` is what a server does with it. */
export const LOCKED_ELSEWHERE = {
  npm: {
    make: async (folder, address) => {
      await run('npm', ['install', 'forkful', ...MAC, ...NPM_QUIET], folder, address);
      without(folder);
    },
    install: (folder, address) => run('npm', ['ci', ...NPM_QUIET], folder, address),
    command: local,
  },
  pnpm: {
    make: async (folder, address) => {
      await run(NODE, [PNPM, 'add', 'forkful', ...MAC], folder, address);
      without(folder);
    },
    install: (folder, address) => run(NODE, [PNPM, 'install', '--frozen-lockfile'], folder, address),
    command: local,
  },
  Yarn: {
    make: async (folder, address) => {
      configureYarn(folder, address, 'node-modules', 'supportedArchitectures: { os: [darwin], cpu: [arm64] }\n');
      await run(NODE, [YARN, 'add', 'forkful'], folder, address);
      without(folder);
      configureYarn(folder, address, 'node-modules');
    },
    install: (folder, address) => run(NODE, [YARN, 'install', '--immutable'], folder, address),
    command: () => [NODE, YARN, 'run', 'forkful'],
  },
  bun: {
    make: async (folder, address) => {
      await run(BUN, ['add', 'forkful', ...MAC], folder, address);
      without(folder);
    },
    install: (folder, address) => run(BUN, ['install', '--frozen-lockfile'], folder, address),
    command: local,
  },
};

/** For all projects of a user. */
export const GLOBALLY = {
  npm: {
    install: (folder, address) => run('npm', ['install', '--global', 'forkful', '--prefix', join(folder, 'prefix'), ...NPM_QUIET], folder, address),
    command: (folder) => join(folder, 'prefix/bin/forkful'),
  },
  pnpm: {
    install: (folder, address) => run(NODE, [PNPM, 'add', '--global', 'forkful'], folder, address),
    command: (folder) => join(folder, 'pnpm/forkful'),
  },
  bun: {
    install: (folder, address) => run(BUN, ['add', '--global', 'forkful'], folder, address),
    command: (folder) => join(folder, '.bun/bin/forkful'),
  },
};

/** Without an install that stays. */
export const ONCE = {
  npx: ['npm', 'exec', '--yes', '--', 'forkful'],
  'pnpm dlx': [NODE, PNPM, 'dlx', 'forkful'],
  bunx: [BUN, 'x', 'forkful'],
};
