// The site: docs/ as it is, with search. Links that work on GitHub work here: `X.md#place`, and `../` for files outside of docs/.
import { createRequire } from 'node:module';
import path from 'node:path';
import { defineConfig } from 'vitepress';
import { address, sidebar } from '../pages.mjs';

const SOURCE = 'https://github.com/forkful/forkful';
const ICON = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M8 15V9M3 1v4l5 4 5-4V1" fill="none" stroke="#3451b2" stroke-width="2.5"/></svg>';
const require = createRequire(import.meta.url);

/** The id of a heading, as GitHub makes it, so that one link serves both. */
const slugify = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}\p{M}_\- ]/gu, '').replaceAll(' ', '-');

/** Where a link of a page of docs/ goes on the site. */
function target(href) {
  if (/^[a-z]+:|^#|^\//.test(href)) return href;
  if (href.startsWith('../')) return `${SOURCE}/blob/main/${href.slice(3)}`;
  const [, file, anchor] = /^([^#]*)(#.*)?$/.exec(href);
  return file.endsWith('.md') ? address(file) + (anchor ?? '') : `${SOURCE}/blob/main/docs/${href}`;
}

function links(markdown) {
  markdown.core.ruler.push('forkful-links', (state) => {
    for (const token of state.tokens) {
      // A table scrolls on a phone: keys must reach it as well.
      if (token.type === 'table_open') token.attrSet('tabindex', '0');
      for (const child of token.children ?? []) {
        if (child.type === 'link_open') child.attrSet('href', target(child.attrGet('href')));
      }
    }
  });
}

/** Words of questions that every page has. */
const processTerm = (term) => {
  const word = term.toLowerCase();
  return ['a', 'an', 'the', 'is', 'are', 'do', 'does', 'did', 'i', 'my', 'it', 'its', 'to', 'of', 'in', 'on', 'and', 'or', 'how', 'what', 'why', 'when',
    'where', 'which', 'can', 'should', 'with', 'for', 'has', 'have', 'by', 'be', 'not', 'forkful', 'app', 'apps'].includes(word) ? null : word;
};

export default defineConfig({
  title: 'Forkful',
  description: 'Runs a Node.js app on every core, keeps it up, and proves that it is faster.',
  lang: 'en',
  base: process.env.SITE_BASE ?? '/forkful/',
  srcDir: '../docs',
  outDir: './dist',
  cleanUrls: true,
  rewrites: (file) => (file === 'README.md' ? 'index.md' : file.toLowerCase()),
  router: { prefetchLinks: false },
  lastUpdated: false,
  markdown: { anchor: { slugify }, config: links, theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' } },
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(ICON)}` }]],
  vite: {
    // docs/ has no node_modules of its own.
    resolve: { alias: [
      { find: /^vue$/, replacement: path.join(path.dirname(require.resolve('vue/package.json')), 'dist/vue.runtime.esm-bundler.js') },
      { find: /^vue\/server-renderer$/, replacement: path.join(path.dirname(require.resolve('vue/package.json')), 'server-renderer/index.mjs') },
    ] },
  },
  themeConfig: {
    sidebar: sidebar(),
    outline: [2, 3],
    nav: [
      { text: 'Install', link: '/install' },
      { text: 'Commands', link: '/cli' },
      { text: 'Config', link: '/config' },
    ],
    socialLinks: [{ icon: 'github', link: SOURCE, ariaLabel: 'Source on GitHub' }],
    editLink: { pattern: `${SOURCE}/edit/main/docs/:path`, text: 'Edit this page' },
    search: {
      provider: 'local',
      options: {
        detailedView: false,
        miniSearch: { options: { processTerm }, searchOptions: { fuzzy: 0.1, prefix: true, boost: { title: 4, text: 2, titles: 2 } } },
      },
    },
  },
});
