// The few names of dmlc's logging that VTA's simulator uses: a check that fails ends the program.
#pragma once
#include <cstdlib>
#include <iostream>

struct Failing {
  ~Failing() {
    std::cerr << std::endl;
    std::exit(4);
  }
  template <class T> Failing &operator<<(const T &value) {
    std::cerr << value;
    return *this;
  }
};

#define LOG(level) Failing()
#define CHECK(holds) if (!(holds)) Failing() << #holds << ": "
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
