// What channel management answers. Apple documents 201 with the id in a header, 200 with JSON, 204 with nothing; anything else
// is not taken for success, and neither is a list that was cut short.

/// A channel as Apple describes it.
package struct ChannelDescription: Sendable, Equatable {
    /// nil when it is neither of the two that are known.
    package let storage: ChannelStorage?
    /// As Apple writes it: `LiveActivity`.
    package let pushType: String

    package init(storage: ChannelStorage?, pushType: String) {
        self.storage = storage
        self.pushType = pushType
    }
}

/// A good answer of channel management.
package enum ChannelAnswer: Sendable, Equatable {
    case created(id: String)
    case described(ChannelDescription)
    case deleted
    case listed([String])

    /// Reads the answer to `request`; nil when it is not a good one.
    package init?(_ reply: APNsReply, to request: ChannelRequest) {
        switch (request, reply.status) {
        case (.create, 201):
            guard let id = reply["apns-channel-id"], (try? ChannelRequest.checked(id)) != nil else { return nil }
            self = .created(id: id)
        case (.read, 200):
            guard let description = ChannelAnswer.description(reply.body) else { return nil }
            self = .described(description)
        case (.delete, 204): self = .deleted
        case (.list, 200):
            guard let ids = ChannelAnswer.list(reply.body) else { return nil }
            self = .listed(ids)
        default: return nil
        }
    }

    private static func description(_ body: [UInt8]) -> ChannelDescription? {
        var scanner = AnswerScanner(body)
        var storage: Int64?
        var pushType: [UInt8] = []
        let isWhole = scanner.members { key, scanner in
            switch key {
            case "message-storage-policy": storage = scanner.integer()
            case "push-type" where scanner.peek == UInt8(ascii: "\""): pushType = scanner.string(limit: 64) ?? []
            default: break
            }
        }
        guard isWhole, let storage else { return nil }
        return ChannelDescription(
            storage: ChannelStorage(rawValue: Int(clamping: storage)), pushType: CleanText.cleaned(pushType))
    }

    private static func list(_ body: [UInt8]) -> [String]? {
        var scanner = AnswerScanner(body, limit: ChannelRequest.longestAnswer)
        var ids: [String]?
        let isWhole = scanner.members { key, scanner in
            if key == "channels" { ids = scanner.strings(limit: 512) }
        }
        // Nothing but ids goes to a terminal, or into the next command.
        guard isWhole, let ids, ids.allSatisfy({ (try? ChannelRequest.checked($0)) != nil }) else { return nil }
        return ids
    }
}

extension AnswerScanner {
    /// Shows the members of one object, each at its value, of which `visit` need not take anything.
    ///
    /// Returns whether the object was whole and nothing followed it.
    mutating func members(_ visit: (String, inout AnswerScanner) -> Void) -> Bool {
        guard take(UInt8(ascii: "{")) else { return false }
        if take(UInt8(ascii: "}")) { return isAtEnd }
        repeat {
            skipBlanks()
            guard let key = string(limit: 64), take(UInt8(ascii: ":")) else { return false }
            skipBlanks()
            visit(String(decoding: key, as: UTF8.self), &self)
            skipValue()
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "}")) && isAtEnd
    }

    /// A list of texts, each of at most `limit` bytes; nil when it is anything else.
    fileprivate mutating func strings(limit: Int) -> [String]? {
        guard take(UInt8(ascii: "[")) else { return nil }
        var texts: [String] = []
        if take(UInt8(ascii: "]")) { return texts }
        repeat {
            skipBlanks()
            // One byte more, so that what is too long is seen to be so.
            guard peek == UInt8(ascii: "\""), let text = string(limit: limit + 1), text.count <= limit else {
                return nil
            }
            texts.append(String(decoding: text, as: UTF8.self))
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "]")) ? texts : nil
    }

    private var isAtEnd: Bool {
        mutating get {
            skipBlanks()
            return peek == nil
        }
    }
}
