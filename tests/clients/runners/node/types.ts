// Compiled, and not run: what the types of clients/node take, and what they refuse.
import { bytes, ControlClient, ControlError, start } from "minibroker";

interface Order {
  id: number;
}

export async function main(): Promise<string | undefined> {
  const broker = await start({ topics: ["orders:3"], args: ["--journal"], stderr: null });
  const control: ControlClient = broker.control;
  await control.produce("orders", [{ key: Buffer.from([1]), value: { id: 1 }, headers: [["trace", "a"]] }]);
  const record = await control.expect<Order>("orders", { value: { id: 1 }, timeout: 5 }, { format: "json" });
  const id: number = record.value.id;
  const key: Buffer | null = bytes(record.key);
  // @ts-expect-error - a misspelt field
  await control.expect("orders", { vlaue: id });
  // @ts-expect-error - no such format
  await control.readRecords("orders", { format: "xml" });
  // @ts-expect-error - a misspelt field of a fault
  await control.addFault({ apis: "Produce" });
  const { requests } = await control.waitForRequests({ api: "Produce", count: 1 });
  try {
    await control.describeTopic("nope");
  } catch (error) {
    if (error instanceof ControlError) return `${error.code} ${key} ${requests[0].errors.join()}`;
  }
  await broker.stop();
}
