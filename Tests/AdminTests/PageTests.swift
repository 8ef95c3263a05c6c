// What is answered to which request.

import Testing

@testable import Admin

@Suite("A page") struct PageTests {
    let pages = AdminPages([
        "/metrics": { .metrics("a 1\n") }, "/healthz": { .probe([]) }, "/readyz": { .probe(["one", "two"]) },
    ])

    @Test("is what stands under its path")
    func found() {
        #expect(
            pages.answer(method: "GET", path: "/metrics")
                == AdminPage(status: 200, type: "text/plain; version=0.0.4; charset=utf-8", body: "a 1\n"))
        #expect(pages.answer(method: "HEAD", path: "/healthz").body == "ok\n")
        #expect(pages.answer(method: "HEAD", path: "/healthz").status == 200)
        #expect(pages.answer(method: "GET", path: "/readyz").status == 503)
        #expect(pages.answer(method: "GET", path: "/readyz").body == "one\ntwo\n")
    }

    @Test("that is not there is named so, with those that are", arguments: ["/", "", "/metrics/", "/METRICS", "*"])
    func missing(path: String) {
        let answer = pages.answer(method: "GET", path: path)
        #expect(answer.status == 404 && answer.body.contains("/healthz /metrics /readyz"))
    }

    @Test("is only read", arguments: ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", ""])
    func methods(method: String) {
        let answer = pages.answer(method: method, path: "/metrics")
        #expect(answer.status == 405 && answer.allow == "GET, HEAD" && !answer.body.contains("a 1"))
    }
}
