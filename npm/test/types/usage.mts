// What users of TypeScript write; it must compile, and what is wrong must not.
import forkfulPm2 from 'forkful/pm2';
import { ForkfulError, apply, connect, delete as remove, events, incident, incidents, list, logs, reload, restart, scale, start, trigger } from 'forkful';
import type { AppView, Event, Pm2Env } from 'forkful';

const outcomes = await start('app.js', { instances: 'max', env: { PORT: 3000 }, wait: false });
const ids: number[] = outcomes.flatMap((outcome) => outcome.pm_ids);
await start({ script: 'app.js', name: 'api', exec_mode: 'cluster' });
await reload('forkful.config.js', { envName: 'production', only: ['api'] });
await start({
  script: 'app.js', args: [1, '--quiet'], port: process.env.PORT ?? 3000, env: { ...process.env, FOO: process.env.FOO, NONE: null },
  ignore_watch: [/\.tmp$/, 'uploads'], log_date_format: false, log_rotate: '50M', stop_exit_codes: '0,2', max_restarts: '10',
});
await start({ script: 'app.js', ignore_watch: /x/, watch: ['src/**/*.js'] });
const { plan } = await apply('forkful.config.js', { prune: true, dryRun: true });
const changes: string[] = plan.map(({ name, change, notes }) => `${change} ${name} ${notes.join()}`);
await restart(['api', 3]);
await scale('api', '+2');
await remove('api');
const apps: AppView[] = await list();
const pids: (number | null)[] = apps.flatMap((app) => app.workers.map((worker) => worker.pid));

for await (const event of events({ logs: true, messages: true })) {
  const told: Event = event;
  if (event.type === 'process:event') {
    const env: Pm2Env = event.process;
    console.log(event.event, env.status, told.type);
  } else if (event.type === 'log:out' || event.type === 'log:err') {
    console.log(event.line);
  } else if (event.type === 'process:msg') {
    console.log(event.message);
  }
}
const [first] = await incidents({ targets: 'api', sinceMs: Date.now() - 60_000 });
const signal: string | null | undefined = (await incident(first.id)).end?.signal;
const stream = logs({ targets: 'api', follow: true });
await stream.ready;
stream.close();

const client = await connect({ home: '/srv/forkful' });
const [{ result, error }] = await client.trigger('api', 'clear', { all: true });
try {
  await trigger('api', 'clear');
} catch (fault) {
  if (fault instanceof ForkfulError && fault.code === 'NO_SUCH_TARGET') console.log(fault.hint);
}

forkfulPm2.connect((fault) => {
  if (fault) throw fault;
  forkfulPm2.start({ script: 'app.js', name: 'api', instances: 2 }, (_error, workers) => {
    const first: number = workers[0].process.pid;
    forkfulPm2.launchBus((_fault, bus) => bus.on('log:*', (kind: string, packet: { data: string }) => console.log(kind, packet.data, first)));
  });
});
const bus = await forkfulPm2.launchBus();
bus.on('log:*', () => bus.close());
await forkfulPm2.restart('api', null);
const status: string = (await forkfulPm2.list())[0].pm2_env.status;

// @ts-expect-error an app needs a script
await start({ name: 'api' });
// @ts-expect-error a configuration has apps
await apply(17);
// @ts-expect-error there is no such stream
logs({ stream: 'both' });
// @ts-expect-error a target is a name or an id
await client.stop({});
// @ts-expect-error incidents have numbers
await client.incident('api');

export { changes, error, ids, pids, result, signal, status };
