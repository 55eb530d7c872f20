// The same for CommonJS.
import pm2 = require('forkful/pm2');
import forkful = require('forkful');

const custom = new pm2.custom({ pm2_home: '/srv/pm2' });
const worker: pm2.Proc | undefined = undefined;

custom.delete('api', (error, workers) => console.log(error?.message, workers.map(({ pm2_env: env }) => env.env.PORT), worker));
forkful.list().then((apps) => console.log(apps.length));
const path: string = forkful.binaryPath();
export = path;
