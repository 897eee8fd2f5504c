// The bridge from @modelcontextprotocol/sdk 1.x.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { runBridge } from './bridge.mjs';

await runBridge(async (server) => {
  const client = new Client({ name: 'interop', version: '1.0.0' });
  await client.connect(new StdioClientTransport(server));
  return client;
});
