/** A diagram, drawn in the browser in the colours of the current theme. Without JavaScript its source is shown. */

import { useData } from 'vitepress';
import { defineComponent, h, onMounted, ref, useId, watch } from 'vue';

export const MermaidDiagram = defineComponent({
  props: { code: { type: String, required: true } },
  setup(props) {
    const { isDark } = useData();
    const id = `diagram-${useId()}`;
    const source = decodeURIComponent(props.code);
    const svg = ref('');
    const draw = async () => {
      const { default: mermaid } = await import('mermaid');
      mermaid.initialize({ startOnLoad: false, theme: isDark.value ? 'dark' : 'default' });
      ({ svg: svg.value } = await mermaid.render(id, source));
    };
    onMounted(draw);
    watch(isDark, draw);
    return () => (svg.value ? h('div', { class: 'mermaid-diagram', innerHTML: svg.value }) : h('pre', source));
  },
});
