// All verbs, in the order in which help lists them.

/// The tree of verbs.
enum VerbCatalogue {
    static let root = VerbGroup(
        name: "", summary: "scheduled Apple push notifications straight out of PostgreSQL",
        members: [
            .verb(.migrate), .verb(.worker), .verb(.enqueue), .verb(.cancel), .verb(.reschedule), .verb(.retry),
            .verb(.list), .verb(.show), .verb(.why), .verb(.watch), .verb(.stats),
            .group(
                VerbGroup(
                    name: "devices", summary: "registers, retires and lists devices",
                    members: [.verb(.devicesRegister), .verb(.devicesDeactivate), .verb(.devicesList)])),
            .group(
                VerbGroup(
                    name: "apps", summary: "lists, pauses and resumes apps",
                    members: [.verb(.appsList), .verb(.appsPause), .verb(.appsResume)])),
            .group(
                VerbGroup(
                    name: "channels", summary: "makes, shows and deletes broadcast channels",
                    members: [
                        .verb(.channelsCreate), .verb(.channelsRead), .verb(.channelsList), .verb(.channelsDelete),
                    ])),
            .verb(.sendTest), .verb(.doctor),
        ])
}
