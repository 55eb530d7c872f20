// What it costs the manager to log its apps' output: four writers, lines of 1 KB, 200 MB/s in all, with rotation (PM2 has
// none) and with a reader that follows the log; how long a write of an app takes at most; and whether every line arrives.

import { interleave } from '../lib/rounds.mjs';
import { casesOf, fixed, ratioOf, ratioText, spreadOf, spreadText } from '../lib/summary.mjs';
import { present, withWriters } from '../lib/writers.mjs';

export const about = 'log lines at 200 MB/s: CPU of the manager, waits of the apps, lines lost';
export const arms = ['pm2', 'forkful-auto'];

const WRITERS = 4;
const LINES_PER_SECOND = 50_000;
const SECONDS = 4;

const CASES = [
  ['pm2', 'pm2', false], ['forkful', 'forkful', false], ['baseline', 'baseline', false],
  ['pm2, followed', 'pm2', true], ['forkful, followed', 'forkful', true], ['baseline, followed', 'baseline', true],
];

export async function run(context) {
  const cases = CASES.filter(([, name]) => present(name) && context.arms.some((arm) => arm.startsWith(name)));
  const lines = (context.quick ? 0.25 : SECONDS) * LINES_PER_SECOND;
  return interleave(context, cases.map(([title]) => title), async (title) => {
    const [, name, follow] = CASES.find(([candidate]) => candidate === title);
    const sample = await withWriters(name, { writers: WRITERS, lines, linesPerSecond: LINES_PER_SECOND, follow });
    const lost = sample.sent - sample.found.lines;
    return {
      ...sample,
      lost,
      line: `${fixed(sample.bytes / 1e6 / sample.seconds)} MB/s, ${fixed(sample.cpuSecondsPerGB, 2)} s of CPU per GB, waits up to ${fixed(sample.waitMsMax, 1)} ms (${fixed(sample.blockedMsMax, 1)} beside those for a core), ${lost} lines lost, ${sample.found.torn} torn, ${sample.found.disordered} out of order`,
    };
  });
}

export const measures = {
  'MB/s': (s) => s.bytes / 1e6 / s.seconds, 'CPU of the manager, s per GB': (s) => s.cpuSecondsPerGB,
  'memory of the manager, MiB': (s) => s.memoryMiB, 'longest write of an app, not for a core, ms': (s) => s.blockedMsMax, 'lines lost': (s) => s.lost,
};

export function tables(result) {
  const of = (name, read, digits = 1) => spreadText(spreadOf(result, name, read), digits);
  const worst = (name, read) => fixed(spreadOf(result, name, read).max);
  return [{
    title: `${WRITERS} writers, lines of 1 KB, ${(WRITERS * LINES_PER_SECOND) / 1000} MB/s offered, ${SECONDS} s`,
    columns: ['manager', 'MB/s', 'CPU of the manager, s per GB', 'CPU / PM2', 'memory of the manager, MiB', 'longest write of an app, ms', 'of it not for a core, ms', 'lines lost', 'torn', 'out of order', 'lines that the follower read'],
    rows: CASES.filter(([name]) => !name.startsWith('baseline') || casesOf(result, []).includes(name)).map(([name]) => [
      name,
      of(name, (s) => s.bytes / 1e6 / s.seconds, 0),
      of(name, (s) => s.cpuSecondsPerGB, 2),
      ratioText(ratioOf(result, name, name.replace(/^(forkful|baseline)/, 'pm2'), (s) => s.cpuSecondsPerGB)),
      of(name, (s) => s.memoryMiB, 0),
      of(name, (s) => s.waitMsMax),
      of(name, (s) => s.blockedMsMax),
      worst(name, (s) => s.lost),
      worst(name, (s) => s.found.torn),
      worst(name, (s) => s.found.disordered),
      name.endsWith('followed') ? of(name, (s) => (100 * s.followed) / s.sent, 0).replace(/^([\d.]+)/, '$1 %') : '–',
    ]),
    notes: [
      'The writers are plain `node` processes in fork mode that call write(2) once a line. Forkful sets files aside at 10 MiB and compresses them meanwhile; PM2 does neither. '
      + 'A write also takes long when its process gets no core, which happens on a busy machine whoever reads the pipe; the kernel says for how long, and the next column is without it. '
      + 'CPU of the manager is all its threads, until it rests. Lost, torn and out of order are the most of any round, counted in the files. The follower is `logs --raw` of each manager.',
    ],
  }];
}
