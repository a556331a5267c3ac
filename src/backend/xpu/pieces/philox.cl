// The numbers of base/philox.h.

// Its DrawPurpose.
#define TOKEN_DRAW 0u
#define ACCEPT_DRAW 1u
#define RESIDUAL_DRAW 2u

// UniformDraw, times 2^53.
ulong uniform_mantissa(ulong seed, int choice, long position, uint purpose) {
  uint4 c = (uint4)((uint)position, (uint)(position >> 32), (uint)choice, purpose);
  uint key0 = (uint)seed, key1 = (uint)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint high0 = mul_hi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
    const uint high1 = mul_hi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
    c = (uint4)(high1 ^ c.y ^ key0, low1, high0 ^ c.w ^ key1, low0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return (ulong)c.x << 21 ^ (ulong)(c.y >> 11);
}
