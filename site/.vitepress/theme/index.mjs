// The default theme with the system's fonts: nothing to load for them.
import theme from 'vitepress/theme-without-fonts';
import './style.css';

export default theme;
