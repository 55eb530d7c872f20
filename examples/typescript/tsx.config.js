// The same with tsx: for Node.js before 22.18, and for TypeScript that has to be transformed (enums, decorators, paths of tsconfig.json).
import config from './forkful.config.js';

export default {
  apps: config.apps.map((app) => ({ ...app, name: 'typescript-tsx', node_args: '--import tsx' })),
};
