// How requests on a connection end while it lives: answered, reset, refused. Called when nghttp2 has returned, never inside it.

import Reactor

extension ClientConnection {
    private func isOurs(_ slot: Int32, _ stream: Int32) -> Bool {
        unsafe table.slots[Int(slot)].connection == number && table.slots[Int(slot)].streamID == stream
    }

    func settleEnded(_ ended: EndedStreams) {
        guard ended.count > 0 else { return }
        var again: [EndedStream] = []
        for index in 0..<ended.count {
            let event = ended[index]
            guard isOurs(event.slot, event.stream) else { continue }
            if isCertainlyUnprocessed(event) {
                again.append(event)
            } else {
                pool.end(event.slot, outcome(event))
            }
        }
        ended.removeAll()
        // A handler may have closed the pool meanwhile.
        let refused = again.filter { isOurs($0.slot, $0.stream) }.sorted { $0.stream < $1.stream }
        guard !refused.isEmpty else { return }
        if goAwayFault == nil { hold() }
        pool.sendAgain(refused.map(\.slot))
    }

    /// Answers that came before we had sent everything: the answer counts, the rest is not sent.
    func settleComplete(_ session: any ClientSession, _ complete: [(slot: Int32, stream: Int32)]) {
        for (slot, stream) in complete where isOurs(slot, stream) {
            session.abandon(slot, code: 8)
            pool.end(slot, outcome(EndedStream(slot: slot, stream: stream, code: 8)))
        }
    }

    private func isCertainlyUnprocessed(_ event: EndedStream) -> Bool {
        let slot = unsafe table.slots + Int(event.slot)
        guard unsafe slot.pointee.status == 0 else { return false }
        let flags = unsafe slot.pointee.flags
        return !flags.contains(.unsendable) && (event.code == 7 || flags.contains(.unsent))
    }

    private func outcome(_ event: EndedStream) -> HTTP2Outcome {
        if unsafe table.slots[Int(event.slot)].status != 0 { return answer(event.slot) }
        let slot = unsafe table.slots[Int(event.slot)]
        if slot.flags.contains(.unsendable) {
            return .notProcessed(HTTP2Fault(.unsendable, "the request does not fit into an HTTP/2 header block"))
        }
        if !slot.flags.contains(.written), slot.request.isPast(loop.now) { return .notProcessed(HTTP2Pool.tooLate) }
        let words = "the peer reset the stream: \(errorName(event.code))"
        let fault = HTTP2Fault(.reset, native: Int(event.code), words)
        return slot.flags.contains(.written) ? .unknown(fault) : .notProcessed(fault)
    }

    func answer(_ index: Int32) -> HTTP2Outcome {
        answers += 1
        lastProgress = loop.now
        if answers == 1 { pool.proved() }
        gate.answered(status: unsafe table.slots[Int(index)].status)
        return .answered(table.response(index))
    }

    /// After repeated refusals the connection rests; somebody must look at it again afterwards.
    private func hold() {
        gate.refused(now: loop.now)
        guard let until = gate.heldUntil, until > loop.now else { return }
        if let holdTimer { loop.cancel(holdTimer) }
        holdTimer = loop.schedule(after: until.since(loop.now)) { [weak self] in self?.pool.wake() }
    }
}
