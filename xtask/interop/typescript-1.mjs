// A host on @modelcontextprotocol/sdk 1.x.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { McpError } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { runHost } from './host.mjs';

const ReadTable = z.object({ method: z.literal('acp/read_table'), params: z.looseObject({ ref: z.string() }) });

async function connect({ transport, address }, capability, readTable) {
  const client = new Client(
    { name: 'interop', version: '1.0.0' },
    { capabilities: { experimental: { acp: capability } } },
  );
  client.setRequestHandler(ReadTable, ({ params }) => readTable(params));
  await client.connect(
    transport === 'stdio'
      ? new StdioClientTransport({ command: address, env: process.env })
      : new StreamableHTTPClientTransport(new URL(address)),
  );
  return {
    capabilities: client.getServerCapabilities(),
    request: (method, params) => client.request({ method, params }, z.looseObject({})),
    call: (params, options) => client.callTool(params, undefined, options),
    close: async () => {
      await client.transport.terminateSession?.();
      await client.close();
    },
  };
}

await runHost({ connect, fail: (code, message) => new McpError(code, message) });
