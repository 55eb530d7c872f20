// Lint rules for all JavaScript of the repository: the recommended ones, and those that keep it plain.
import js from '@eslint/js';
import globals from 'globals';

export default [
  { ignores: ['target/', 'bench/results/', '**/node_modules/', 'crates/forkful-daemon/src/server/dashboard/page/', 'site/dist/', 'site/.vitepress/cache/', '**/fixtures/broken*', 'examples/nestjs/dist/', 'examples/nextjs/.next/'] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2024, globals: globals.node },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      complexity: ['error', 15],
      eqeqeq: 'error',
      'max-lines': ['error', 700],
      'max-lines-per-function': ['error', { max: 70, skipBlankLines: true, skipComments: true }],
      'no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      'no-var': 'error',
      'object-shorthand': 'error',
      'prefer-const': 'error',
    },
  },
  // Functions of these files run in the browser's page as well.
  { files: ['page/test/**', 'page/shots.mjs', 'site/test/**'], languageOptions: { globals: { ...globals.node, ...globals.browser } } },
  // A page of the command.
  { files: ['crates/forkful/src/output/flame/**'], languageOptions: { globals: globals.browser } },
  // React.
  {
    files: ['examples/nextjs/app/**'],
    languageOptions: { parserOptions: { ecmaFeatures: { jsx: true } } },
  },
  // The body of a suite is a list of tests, not a function that someone has to follow.
  { files: ['**/*.test.mjs'], rules: { 'max-lines-per-function': 'off' } },
];
