export * from './index.js';
export { remove as delete } from './index.js';
