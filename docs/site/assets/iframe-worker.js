// Browsers start no workers from files. Of a site that is opened without a server the search runs in
// a hidden frame; the theme's worker looks for this name of the class.
if (location.protocol === "file:") {
  const load = (page, url) => new Promise((resolve, reject) => {
    const script = page.createElement("script")
    script.src = url
    script.onload = resolve
    script.onerror = () => reject(new Error(url))
    page.body.append(script)
  })

  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      const page = this.inside.document
      page.open()
      page.write("<!doctype html><body></body>")
      page.close()
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = async (...urls) => {
        for (const one of urls) await load(page, one)
      }
      this.loaded = load(page, url)
    }

    async postMessage(data) {
      await this.loaded
      this.inside.dispatchEvent(new MessageEvent("message", { data }))
    }
  }
}
