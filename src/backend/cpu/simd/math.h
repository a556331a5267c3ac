// Functions over F32x16, the same to the bit on every instruction set. `V` is avx2::F32x16 or
// avx512::F32x16.
#pragma once

namespace sluice::cpu {

// e^r - 1 for |r| <= ln(2) / 2 by the series to r^7: relative error below 2^-26.
template <class V>
inline V SmallExpMinus1(V r) {
  V p = V::Fma(r, V::Set1(1.0f / 5040), V::Set1(1.0f / 720));
  p = V::Fma(p, r, V::Set1(1.0f / 120));
  p = V::Fma(p, r, V::Set1(1.0f / 24));
  p = V::Fma(p, r, V::Set1(1.0f / 6));
  p = V::Fma(p, r, V::Set1(0.5f));
  return V::Fma(p, r * r, r);
}

// n = round(x / ln 2) and r = x - n ln 2, with ln 2 in two parts.
template <class V>
inline V SplitByLn2(V x, V* n) {
  *n = V::Round(x * V::Set1(1.44269504088896341f));
  const V r = V::Fma(*n, V::Set1(-0.693145751953125f), x);
  return V::Fma(*n, V::Set1(-1.42860682030941723212e-6f), r);
}

// e^x, below 2 ulp; 0 below -104, infinity above 89, NaN stays NaN.
template <class V>
inline V Exp(V x) {
  x = V::Min(V::Set1(89.0f), V::Max(V::Set1(-104.0f), x));
  V n;
  const V p = SmallExpMinus1(SplitByLn2(x, &n)) + V::Set1(1.0f);
  return V::Scale(p, n);
}

// log(1 + u) for 0 <= u <= 1, below 3 ulp: 2 atanh(u / (2 + u)) by the series to the 15th power, of
// an argument of at most 1/3.
template <class V>
inline V Log1p(V u) {
  const V s = u / (u + V::Set1(2.0f)), square = s * s;
  V p = V::Fma(V::Set1(1.0f / 15), square, V::Set1(1.0f / 13));
  p = V::Fma(p, square, V::Set1(1.0f / 11));
  p = V::Fma(p, square, V::Set1(1.0f / 9));
  p = V::Fma(p, square, V::Set1(1.0f / 7));
  p = V::Fma(p, square, V::Set1(0.2f));
  p = V::Fma(p, square, V::Set1(1.0f / 3));
  const V twice = s + s;
  return V::Fma(p * square, twice, twice);
}

// log(1 + e^x). NaN stays NaN: Max gives its second operand, and the logarithm of a NaN is NaN.
template <class V>
inline V Softplus(V x) {
  return V::Max(V::Zero(), x) + Log1p(Exp(V::Zero() - V::Abs(x)));
}

// tanh(x), below 3 ulp, from e^(2|x|) - 1 so that small x keep their digits.
template <class V>
inline V Tanh(V x) {
  const V twice = V::Min(V::Set1(20.0f), V::Abs(x) * V::Set1(2.0f));
  V n;
  const V p = SmallExpMinus1(SplitByLn2(twice, &n));
  const V power = V::PowerOfTwo(n);
  const V m = V::Fma(p, power, power - V::Set1(1.0f));
  return V::CopySign(m / (m + V::Set1(2.0f)), x);
}

// e^(x^2 / 2) times the share of a normal distribution that lies above x >= 0, below 5 ulp: a
// polynomial in t = 1 / (1 + 0.35 x) of degree 8, fitted for the least relative error up to x = 14.
template <class V>
inline V ScaledNormalTail(V x) {
  const V t = V::Set1(1.0f) / V::Fma(x, V::Set1(0.35f), V::Set1(1.0f));
  V p = V::Fma(t, V::Set1(-0.02955256961286068f), V::Set1(0.14589250087738037f));
  p = V::Fma(p, t, V::Set1(-0.2595476508140564f));
  p = V::Fma(p, t, V::Set1(0.16337919235229492f));
  p = V::Fma(p, t, V::Set1(-0.025870835408568382f));
  p = V::Fma(p, t, V::Set1(0.10661400109529495f));
  p = V::Fma(p, t, V::Set1(0.11957015097141266f));
  p = V::Fma(p, t, V::Set1(0.13989555835723877f));
  p = V::Fma(p, t, V::Set1(0.1396196186542511f));
  return p * t;
}

}  // namespace sluice::cpu
