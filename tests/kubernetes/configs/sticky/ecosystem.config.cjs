module.exports = {
  apps: [
    { name: 'chat', script: 'app.js', instances: 4, balance: 'sticky', memory_max: '512M', cpu_max: 1.5 },
    { name: 'other', script: 'app.js' },
  ],
};
