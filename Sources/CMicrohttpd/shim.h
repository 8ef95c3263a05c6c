// libmicrohttpd: a small HTTP/1.1 server. What is variadic there, and what is a union behind a pointer, is made plain here.
#pragma once
#include <microhttpd.h>

// A server over a listening socket, which it closes in the end; nothing happens but inside MHD_run. NULL when it cannot be had.
static inline struct MHD_Daemon *pgpush_mhd_start(
    int listener, unsigned int connections, size_t memory, unsigned int timeout,
    MHD_AccessHandlerCallback handler, MHD_NotifyConnectionCallback notify, void *context)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, handler, context,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listener,
        MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory,
        MHD_OPTION_CONNECTION_TIMEOUT, timeout,
        MHD_OPTION_NOTIFY_CONNECTION, notify, context,
        MHD_OPTION_END);
}

// The epoll descriptor that becomes readable when MHD_run has something to do; -1 when there is none.
static inline int pgpush_mhd_epoll(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info == NULL ? -1 : info->epoll_fd;
}

// The socket of a connection; -1 when there is none.
static inline int pgpush_mhd_socket(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info == NULL ? -1 : info->connect_fd;
}

// Whether a connection has just been made, else it has just ended.
static inline int pgpush_mhd_is_new(enum MHD_ConnectionNotificationCode code)
{
    return code == MHD_CONNECTION_NOTIFY_STARTED;
}

// Whether MHD_run should be called again without waiting.
static inline int pgpush_mhd_has_more(struct MHD_Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG milliseconds = 1;
    return MHD_get_timeout(daemon, &milliseconds) == MHD_YES && milliseconds == 0;
}

// Answers with a copy of the body; 0 when there is no memory for it. `header` and `value` may be NULL.
static inline int pgpush_mhd_answer(
    struct MHD_Connection *connection, unsigned int status, const void *body, size_t length,
    const char *type, const char *header, const char *value)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(length, (void *)body, MHD_RESPMEM_MUST_COPY);
    if (response == NULL) return 0;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    // One request a connection: whoever asks comes back in seconds or minutes, and a place that is free serves anybody.
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (header != NULL) MHD_add_response_header(response, header, value);
    int taken = MHD_queue_response(connection, status, response) == MHD_YES;
    MHD_destroy_response(response);
    return taken;
}
