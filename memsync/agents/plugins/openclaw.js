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

const started = new Set()

export default {
  id: "memsync",
  register(api) {
    api.on("before_prompt_build", async (event, context) => {
      const prompt = event.currentUserMessage ?? event.prompt // which may begin with earlier messages
      const data = { session_id: context.sessionId ?? context.sessionKey, cwd: context.workspaceDir, prompt }
      const start = started.has(data.session_id) ? "" : await ask("session-start", data)
      started.add(data.session_id)
      const text = [start, await ask("prompt", data)].filter(Boolean).join("\n\n")
      return text ? { prependContext: text } : undefined
    })
    api.on("session_end", async (event, context) => {
      await ask("session-end", { session_id: context.sessionId ?? context.sessionKey })
    })
  },
}
