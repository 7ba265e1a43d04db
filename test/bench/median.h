/* The median of some measurements, which are put in order. */
#ifndef BENCH_MEDIAN_H
#define BENCH_MEDIAN_H

#include <stdlib.h>

static inline int median_order(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;
	return (left > right) - (left < right);
}

static inline double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), median_order);
	return values[count / 2];
}

#endif
