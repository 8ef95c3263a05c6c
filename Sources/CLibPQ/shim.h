// libpq, the C library of PostgreSQL.
#pragma once
#include <libpq-fe.h>
