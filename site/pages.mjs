// The pages of the site, in the order of its sidebar. Every page of docs/ is on the site: pages that are not listed here are under "More".
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const DOCS = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../docs');

const GROUPS = [
  ['Tutorials', {
    'INSTALL.md': 'Install',
    'FIRST-APP.md': 'First app in five minutes',
    'FROM-PM2.md': 'From PM2',
    'FROM-CLUSTER.md': 'From node:cluster',
    'NGINX.md': 'Behind nginx',
    'SYSTEMD.md': 'systemd',
    'DOCKER.md': 'Docker',
    'KUBERNETES.md': 'Kubernetes',
    'DEPLOY.md': 'Deploy without downtime',
    'SOCKET-IO.md': 'socket.io',
    'NEXTJS.md': 'Next.js',
    'NESTJS.md': 'NestJS',
    'BULLMQ.md': 'BullMQ workers that drain',
  }],
  ['How to', {
    'ENVIRONMENT.md': 'Env files and secrets',
    'REBOOT.md': 'Start at boot',
    'GRACEFUL-SHUTDOWN.md': 'Shut down gracefully',
    'HEALTH.md': 'Health checks',
    'LOGS.md': 'Logs',
    'DASHBOARD.md': 'The dashboard',
    'MEMORY.md': 'Memory',
    'LIMITS.md': 'Limits',
    'AUTOSCALING.md': 'Autoscaling',
    'STICKY.md': 'Sticky sessions',
    'INCIDENTS.md': 'Crashes and other incidents',
    'BLOCKED-WORKER.md': 'Debug a blocked worker',
    'NODE-UPGRADE.md': 'Upgrade Node.js',
    'UPDATE.md': 'Update Forkful',
    'CI.md': 'Continuous integration',
    'MACOS.md': 'macOS',
    'EXPORT.md': 'Export manifests',
    'FAQ.md': 'Frequently asked questions',
    'TROUBLESHOOTING.md': 'Troubleshooting',
  }],
  ['Reference', {
    'CLI.md': 'Commands',
    'CLI.md#exit-codes': 'Exit codes',
    'CONFIG.md': 'Config',
    'JAVASCRIPT.md': 'JavaScript client',
    'API.md': 'API',
    'EVENTS.md': 'Events',
    'MCP.md': 'Assistants (MCP)',
    'METRICS.md': 'Metrics',
    'RELEASES.md': 'Releases',
  }],
  ['Explanations', {
    'BALANCE.md': 'How connections are distributed',
    'RELOAD.md': 'Reload',
    'CRASHES.md': 'Crashes and restarts',
    'RELIABILITY.md': 'Reliability',
    'SECURITY.md': 'Security',
  }],
  ['Measuring', {
    'DOCTOR.md': 'Doctor',
    'PROFILES.md': 'Profiles',
    'MEASURING.md': 'Load tests',
    'COMPARE.md': 'Compare',
    'TUNE.md': 'Tune',
    'EXPERIMENTS.md': 'Experiments',
    'BENCHMARKS.md': 'Benchmarks',
    'SCALE.md': 'Scale',
  }],
  ['Inside', {
    'ARCHITECTURE.md': 'Architecture',
    'PROTOCOL.md': "The channel's protocol",
  }],
];

/** The address of a page without the site's base: `FROM-PM2.md` is `/from-pm2`, `CLI.md#exit-codes` is `/cli#exit-codes`. */
export const address = (file) => `/${file === 'README.md' ? '' : file.toLowerCase().replace(/\.md(?=#|$)/, '')}`;

const heading = (file) => /^# (.+)$/m.exec(readFileSync(path.join(DOCS, file), 'utf8'))[1].replaceAll('`', '');
const group = (text, items) => ({ text, items });

/** The sidebar in the form of VitePress. */
export function sidebar() {
  const known = new Set(GROUPS.flatMap(([, pages]) => Object.keys(pages)));
  const more = readdirSync(DOCS).filter((file) => file.endsWith('.md') && file !== 'README.md' && !known.has(file)).sort();
  const groups = GROUPS.map(([text, pages]) => group(text, Object.entries(pages)
    .filter(([file]) => existsSync(path.join(DOCS, file.split('#')[0])))
    .map(([file, title]) => ({ text: title, link: address(file) }))));
  return more.length === 0 ? groups : [...groups, group('More', more.map((file) => ({ text: heading(file), link: address(file) })))];
}
