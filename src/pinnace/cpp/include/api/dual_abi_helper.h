// Conversions between strings and vectors of characters, for programs that use them. The library itself passes
// strings: it is built by the compiler of the program, so both have the same ones.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mindspore {
using Chars = std::vector<char>;

inline Chars StringToChar(const std::string &text) { return Chars(text.begin(), text.end()); }
inline std::string CharToString(const Chars &chars) { return std::string(chars.begin(), chars.end()); }

inline std::pair<Chars, int32_t> PairStringToChar(const std::pair<std::string, int32_t> &pair) {
  return {StringToChar(pair.first), pair.second};
}
inline std::pair<std::string, int32_t> PairCharToString(const std::pair<Chars, int32_t> &pair) {
  return {CharToString(pair.first), pair.second};
}

inline std::vector<Chars> VectorStringToChar(const std::vector<std::string> &texts) {
  std::vector<Chars> all;
  for (const auto &text : texts) all.push_back(StringToChar(text));
  return all;
}
inline std::vector<std::string> VectorCharToString(const std::vector<Chars> &texts) {
  std::vector<std::string> all;
  for (const auto &text : texts) all.push_back(CharToString(text));
  return all;
}

inline std::set<Chars> SetStringToChar(const std::set<std::string> &texts) {
  std::set<Chars> all;
  for (const auto &text : texts) all.insert(StringToChar(text));
  return all;
}
inline std::set<std::string> SetCharToString(const std::set<Chars> &texts) {
  std::set<std::string> all;
  for (const auto &text : texts) all.insert(CharToString(text));
  return all;
}

template <class T>
std::map<Chars, T> MapStringToChar(const std::map<std::string, T> &map) {
  std::map<Chars, T> all;
  for (const auto &[key, value] : map) all.emplace(StringToChar(key), value);
  return all;
}
template <class T>
std::map<std::string, T> MapCharToString(const std::map<Chars, T> &map) {
  std::map<std::string, T> all;
  for (const auto &[key, value] : map) all.emplace(CharToString(key), value);
  return all;
}

inline std::map<Chars, Chars> MapStringToVectorChar(const std::map<std::string, std::string> &map) {
  std::map<Chars, Chars> all;
  for (const auto &[key, value] : map) all.emplace(StringToChar(key), StringToChar(value));
  return all;
}
inline std::map<std::string, std::string> MapVectorCharToString(const std::map<Chars, Chars> &map) {
  std::map<std::string, std::string> all;
  for (const auto &[key, value] : map) all.emplace(CharToString(key), CharToString(value));
  return all;
}
inline std::map<Chars, Chars> UnorderedMapStringToChar(const std::unordered_map<std::string, std::string> &map) {
  return MapStringToVectorChar({map.begin(), map.end()});
}
inline std::unordered_map<std::string, std::string> UnorderedMapCharToString(const std::map<Chars, Chars> &map) {
  auto all = MapVectorCharToString(map);
  return {all.begin(), all.end()};
}
}  // namespace mindspore
