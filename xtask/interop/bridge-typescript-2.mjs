// The bridge from @modelcontextprotocol/client 2.x.

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { runBridge } from './bridge.mjs';

await runBridge(async (server) => {
  const client = new Client({ name: 'interop', version: '1.0.0' });
  await client.connect(new StdioClientTransport(server));
  return client;
});
