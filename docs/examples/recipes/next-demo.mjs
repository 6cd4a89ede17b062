import { GET } from './route.mjs';

const response = await GET(new Request('http://localhost/api/device', { headers: { 'x-tenant': 'acme' } }));
console.log(response.status, await response.json()); // → 200 { owner: …
console.log((await GET(new Request('http://localhost/api/device'))).status); // → 404
