// As `nest new` writes it, for each kind of module resolution.
const project = (resolution) => ({
  displayName: resolution,
  moduleFileExtensions: ['js', 'json', 'ts'],
  rootDir: 'src',
  testRegex: '.*\\.spec\\.ts$',
  transform: { '^.+\\.(t|j)s$': ['ts-jest', { tsconfig: `tsconfig.${resolution}.json` }] },
  testEnvironment: 'node',
});

module.exports = { projects: [project('node10'), project('node16')] };
