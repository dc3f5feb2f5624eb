#pragma once
#include "extension.h"

[[noreturn]] inline void illegal_instruction(processor_t &) { std::exit(3); }
