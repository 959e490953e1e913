// Visibility of the library's symbols.
#pragma once

#ifndef MS_API
#define MS_API __attribute__((visibility("default")))
#endif
