// What is answered to whom: the pages by their paths, and the plain words for everything else. Pure.

/// An answer.
package struct AdminPage: Sendable, Equatable {
    /// The type of the Prometheus text format.
    package static let prometheus = "text/plain; version=0.0.4; charset=utf-8"
    static let plain = "text/plain; charset=utf-8"

    /// HTTP status.
    package let status: Int
    /// Value of `Content-Type`.
    package let type: String
    package let body: String
    /// Value of `Allow`, where there is one.
    let allow: String?

    init(status: Int, type: String, body: String, allow: String? = nil) {
        self.status = status
        self.type = type
        self.body = body
        self.allow = allow
    }

    /// The metrics of the process, in the text format 0.0.4.
    package static func metrics(_ text: String) -> AdminPage {
        AdminPage(status: 200, type: prometheus, body: text)
    }

    /// The answer to a probe: 200 and `ok`, or 503 with what is wrong, a line each.
    package static func probe(_ problems: [String]) -> AdminPage {
        AdminPage(
            status: problems.isEmpty ? 200 : 503, type: plain,
            body: (problems.isEmpty ? ["ok"] : problems).map { $0 + "\n" }.joined())
    }
}

/// The pages of a server.
package struct AdminPages: Sendable {
    private let pages: [String: @Sendable () -> AdminPage]

    /// `pages` by their paths; each is made anew for each request, on the server's own thread, and may not wait for anything.
    package init(_ pages: [String: @Sendable () -> AdminPage]) { self.pages = pages }

    /// What is answered to a request; `path` is without the query.
    func answer(method: String, path: String) -> AdminPage {
        guard let page = pages[path] else {
            let words = "not found; what there is: \(pages.keys.sorted().joined(separator: " "))\n"
            return AdminPage(status: 404, type: AdminPage.plain, body: words)
        }
        guard method == "GET" || method == "HEAD" else {
            return AdminPage(
                status: 405, type: AdminPage.plain, body: "only GET and HEAD are answered here\n", allow: "GET, HEAD")
        }
        return page()
    }
}
