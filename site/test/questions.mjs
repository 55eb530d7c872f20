// What new users asked and did not find (the words are theirs), with the page that answers.
export default [
  ['how do I install forkful', '/install'],
  ['import pm2 runs my jobs twice', '/from-pm2'],
  ['DATABASE_URL is gone after a reboot', '/environment'],
  ['how many workers should I run', '/faq'],
  ['a worker is stuck in an endless loop', '/blocked-worker'],
  ['Cannot find module express', '/troubleshooting'],
  ['run in a docker container', '/docker'],
  ['kubernetes readiness probe', '/kubernetes'],
  ['start my app in CI', '/ci'],
  ['start apps at boot', '/reboot'],
  ['close open requests on SIGTERM', '/graceful-shutdown'],
  ['limit the memory of a worker', '/memory'],
  ['what is the default of max_memory_restart', '/config'],
];
