// By memsync agents connect AGENT. To remove it, run: memsync agents disconnect AGENT
import { execFile } from "node:child_process"

const command = ["memsync"]

const ask = (event, data) =>
  new Promise((answer) => {
    const [program, ...words] = [...command, event, "--agent", "AGENT"]
    const child = execFile(program, words, { timeout: 5000 }, (error, out) => answer(error ? "" : out))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(data))
  })

const texts = new Map() // session -> what memsync recalled at its start, and at its last prompt

export const Memsync = async ({ directory }) => ({
  "chat.message": async (input, output) => {
    const prompt = output.parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
    const data = { session_id: input.sessionID, cwd: directory, prompt: prompt.join("\n") }
    const start = texts.get(input.sessionID)?.start ?? (await ask("session-start", data))
    texts.set(input.sessionID, { start, prompt: await ask("prompt", data) })
  },
  "experimental.chat.system.transform": async (input, output) => {
    const { start, prompt } = texts.get(input.sessionID) ?? {}
    output.system.push(...[start, prompt].filter(Boolean))
  },
  event: async ({ event }) => {
    if (event.type !== "session.deleted") return
    texts.delete(event.properties.info.id)
    await ask("session-end", { session_id: event.properties.info.id, cwd: directory })
  },
})
